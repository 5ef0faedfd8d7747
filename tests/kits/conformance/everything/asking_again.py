"""The asking tools and the asking prompt for several instances: each returns its questions (`NeedsInput`).

It is called again with the answers, maybe in another instance. The client carries its sealed state.
"""

from __future__ import annotations

from questions import (
    CAPITAL,
    CHOICES,
    CONFIRM,
    CONTEXT,
    DEFAULTS,
    NAME,
    SEVERAL,
    STEP_1,
    STEP_2,
    USER,
    describe,
    supported,
)
from shelf import registry

from mcp_bridge import CallContext, Form, prompt, tool
from mcp_bridge.questions import NeedsInput, Sampling


@tool(registry=registry)
def test_sampling(prompt: str, ctx: CallContext) -> str | NeedsInput:
    """Have the client's model answer a prompt."""
    if "said" not in ctx.answers:
        return NeedsInput({"said": Sampling(prompt, 100)})
    return f"LLM response: {ctx.answers['said'].text}"


@tool(registry=registry)
def test_elicitation(message: str, ctx: CallContext) -> str | NeedsInput:
    """Ask for a user's name and address."""
    if "user" not in ctx.answers:
        return NeedsInput({"user": Form(message, USER)})
    return f"User response: {describe(ctx.answers['user'])}"


@tool(registry=registry)
def test_elicitation_sep1034_defaults(ctx: CallContext) -> str | NeedsInput:
    """Ask with a default for each kind of field."""
    if "values" not in ctx.answers:
        return NeedsInput({"values": Form("Please check these values", DEFAULTS)})
    return f"Elicitation completed: {describe(ctx.answers['values'])}"


@tool(registry=registry)
def test_elicitation_sep1330_enums(ctx: CallContext) -> str | NeedsInput:
    """Ask with each kind of choice."""
    if "choices" not in ctx.answers:
        return NeedsInput({"choices": Form("Please choose", CHOICES)})
    return f"Elicitation completed: {describe(ctx.answers['choices'])}"


@tool(registry=registry)
def test_missing_capability(ctx: CallContext) -> str | NeedsInput:
    """Require a client with sampling."""
    if "said" not in ctx.answers:
        return NeedsInput({"said": Sampling("Say something.", 100)})
    return ctx.answers["said"].text


@tool(registry=registry)
async def test_streaming_elicitation(ctx: CallContext) -> str | NeedsInput:
    """Report progress, then ask."""
    await ctx.report_progress(50, 100)
    return describe(ctx.answers["confirm"]) if "confirm" in ctx.answers else NeedsInput({"confirm": CONFIRM})


@tool(registry=registry)
def test_input_required_result_elicitation(ctx: CallContext) -> str | NeedsInput:
    """Ask for a name and greet it."""
    if "user_name" not in ctx.answers:
        return NeedsInput({"user_name": NAME})
    return f"Hello, {ctx.answers['user_name'].content.get('name', 'stranger')}!"


@tool(registry=registry)
def test_input_required_result_sampling(ctx: CallContext) -> str | NeedsInput:
    """Ask the client's model for a capital."""
    if "capital_question" not in ctx.answers:
        return NeedsInput({"capital_question": CAPITAL})
    return ctx.answers["capital_question"].text


@tool(registry=registry)
def test_input_required_result_list_roots(ctx: CallContext) -> str | NeedsInput:
    """Name the client's folders."""
    if "client_roots" not in ctx.answers:
        return NeedsInput({"client_roots": SEVERAL["client_roots"]})
    return ", ".join(root.uri for root in ctx.answers["client_roots"])


@tool(registry=registry)
def test_input_required_result_request_state(ctx: CallContext) -> str | NeedsInput:
    """Remember something while the client is asked."""
    if "confirm" not in ctx.answers:
        return NeedsInput({"confirm": CONFIRM}, state={"kept": "state-ok"})
    return f"{ctx.state['kept']}: {describe(ctx.answers['confirm'])}"


@tool(registry=registry)
def test_input_required_result_tampered_state(ctx: CallContext) -> str | NeedsInput:
    """Ask, with a state that clients must not change."""
    if "confirm" not in ctx.answers:
        return NeedsInput({"confirm": CONFIRM}, state={"step": 1})
    return describe(ctx.answers["confirm"])


@tool(registry=registry)
def test_input_required_result_multiple_inputs(ctx: CallContext) -> str | NeedsInput:
    """Ask the user, the model, and for the roots, in one round."""
    if not ctx.answers:
        return NeedsInput(SEVERAL, state={"step": 1})
    name, folders = ctx.answers["user_name"].content.get("name"), ctx.answers["client_roots"]
    return f"{ctx.answers['greeting'].text} {name} works in {len(folders)} folders."


@tool(registry=registry)
def test_input_required_result_multi_round(ctx: CallContext) -> str | NeedsInput:
    """Ask for a name, then for a colour."""
    if "step2" in ctx.answers:
        return f"{ctx.state['name']} likes {ctx.answers['step2'].content.get('color')}."
    if "step1" in ctx.answers:
        return NeedsInput({"step2": STEP_2}, state={"name": ctx.answers["step1"].content.get("name")})
    return NeedsInput({"step1": STEP_1}, state={})


@tool(registry=registry)
def test_input_required_result_capabilities(ctx: CallContext) -> str | NeedsInput:
    """Ask only questions that this client supports."""
    if not ctx.answers:
        return NeedsInput(supported(ctx.capabilities))
    return f"Answered: {', '.join(ctx.answers)}"


@prompt(name="test_input_required_result_prompt", registry=registry)
def asking_prompt(ctx: CallContext) -> str | NeedsInput:
    """A prompt with a question about its context."""
    if "user_context" not in ctx.answers:
        return NeedsInput({"user_context": CONTEXT})
    return f"Work with this context: {ctx.answers['user_context'].content.get('context', 'none')}"
