"""The asking tools and the asking prompt for one instance: each awaits the answer (`ctx.ask`)."""

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

from mcp_bridge import CallContext, prompt, tool


@tool(registry=registry)
async def test_sampling(prompt: str, ctx: CallContext) -> str:
    """Have the client's model answer a prompt."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@tool(registry=registry)
async def test_elicitation(message: str, ctx: CallContext) -> str:
    """Ask for a user's name and address."""
    return f"User response: {describe(await ctx.ask(message, USER))}"


@tool(registry=registry)
async def test_elicitation_sep1034_defaults(ctx: CallContext) -> str:
    """Ask with a default for each kind of field."""
    return f"Elicitation completed: {describe(await ctx.ask('Please check these values', DEFAULTS))}"


@tool(registry=registry)
async def test_elicitation_sep1330_enums(ctx: CallContext) -> str:
    """Ask with each kind of choice."""
    return f"Elicitation completed: {describe(await ctx.ask('Please choose', CHOICES))}"


@tool(registry=registry)
async def test_missing_capability(ctx: CallContext) -> str:
    """Require a client with sampling."""
    return (await ctx.sample("Say something.", max_tokens=100)).text


@tool(registry=registry)
async def test_streaming_elicitation(ctx: CallContext) -> str:
    """Report progress, then ask."""
    await ctx.report_progress(50, 100)
    return describe(await ctx.ask(CONFIRM.message, CONFIRM.schema, key="confirm"))


@tool(registry=registry)
async def test_input_required_result_elicitation(ctx: CallContext) -> str:
    """Ask for a name and greet it."""
    answer = await ctx.ask(NAME.message, NAME.schema, key="user_name")
    return f"Hello, {answer.content.get('name', 'stranger')}!"


@tool(registry=registry)
async def test_input_required_result_sampling(ctx: CallContext) -> str:
    """Ask the client's model for a capital."""
    return (await ctx.sample(CAPITAL.messages, max_tokens=CAPITAL.max_tokens, key="capital_question")).text


@tool(registry=registry)
async def test_input_required_result_list_roots(ctx: CallContext) -> str:
    """Name the client's folders."""
    return ", ".join(root.uri for root in await ctx.roots(key="client_roots"))


@tool(registry=registry)
async def test_input_required_result_request_state(ctx: CallContext) -> str:
    """Remember something while the client is asked."""
    state = "state-ok"
    answer = await ctx.ask(CONFIRM.message, CONFIRM.schema, key="confirm")
    return f"{state}: {describe(answer)}"


@tool(registry=registry)
async def test_input_required_result_tampered_state(ctx: CallContext) -> str:
    """Ask, with a state that clients must not change."""
    return describe(await ctx.ask(CONFIRM.message, CONFIRM.schema, key="confirm"))


@tool(registry=registry)
async def test_input_required_result_multiple_inputs(ctx: CallContext) -> str:
    """Ask the user, the model, and for the roots, in one round."""
    answers = await ctx.put(SEVERAL)
    name, folders = answers["user_name"].content.get("name"), answers["client_roots"]
    return f"{answers['greeting'].text} {name} works in {len(folders)} folders."


@tool(registry=registry)
async def test_input_required_result_multi_round(ctx: CallContext) -> str:
    """Ask for a name, then for a colour."""
    name = (await ctx.ask(STEP_1.message, STEP_1.schema, key="step1")).content.get("name")
    color = (await ctx.ask(STEP_2.message, STEP_2.schema, key="step2")).content.get("color")
    return f"{name} likes {color}."


@tool(registry=registry)
async def test_input_required_result_capabilities(ctx: CallContext) -> str:
    """Ask only questions that this client supports."""
    return f"Answered: {', '.join(await ctx.put(supported(ctx.capabilities)))}"


@prompt(name="test_input_required_result_prompt", registry=registry)
async def asking_prompt(ctx: CallContext) -> str:
    """A prompt with a question about its context."""
    answer = await ctx.ask(CONTEXT.message, CONTEXT.schema, key="user_context")
    return f"Work with this context: {answer.content.get('context', 'none')}"
