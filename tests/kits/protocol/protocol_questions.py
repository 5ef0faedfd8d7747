"""Tools, prompts and resources of the protocol tests with questions or notifications to the client."""

from __future__ import annotations

from typing import Any

from mcp_bridge import CallContext, Form, prompt, resource, tool
from mcp_bridge.questions import NeedsInput, Roots, Sampling
from tests.kits.protocol.protocol_tools import OFFERED, wait_until_released

NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "title": "Text", "minLength": 1, "default": "some"},
        "mail": {"type": "string", "format": "email", "default": "a@example.com"},
        "whole": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
        "number": {"type": "number", "default": 0.5},
        "flag": {"type": "boolean", "default": True},
        "one": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "titled": {"type": "string", "oneOf": [{"const": "x", "title": "X"}, {"const": "y", "title": "Y"}]},
        "some": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "default": ["p"]},
        "several": {"type": "array", "items": {"anyOf": [{"const": "m", "title": "M"}, {"const": "n", "title": "N"}]}},
    },
    "required": ["text"],
}


@tool(registry=OFFERED)
async def ask_name(ctx: CallContext, greeting: str = "Hello") -> str:
    """Asks for a name."""
    answer = await ctx.ask("What is your name?", NAME, key="name")
    return f"{greeting}, {answer.content['name']}!" if answer else f"{answer.action} is fine."


@tool(registry=OFFERED)
async def ask_twice(ctx: CallContext) -> str:
    """Asks two things after each other."""
    first = await ctx.ask("What is your name?", NAME, key="first")
    second = await ctx.ask(f"And the friend of {first.content['name']}?", NAME, key="second")
    return f"{first.content['name']} and {second.content['name']}"


@tool(registry=OFFERED)
async def ask_between(name: str, ctx: CallContext) -> str:
    """Sends progress and log messages before and after a question, and waits to be released."""
    await ctx.report_progress(1)
    await ctx.log("error", "before")
    await ctx.ask("What is your name?", NAME, key="name")
    await ctx.report_progress(2)
    await ctx.log("error", "after")
    return await wait_until_released(name, ctx)


@tool(registry=OFFERED)
async def ask_fields(ctx: CallContext) -> dict[str, Any]:
    """Asks with every kind of field."""
    return dict((await ctx.ask("Fill this in.", FIELDS, key="fields")).content)


@tool(registry=OFFERED)
async def ask_page(ctx: CallContext, url: str = "https://example.com/sign-in") -> str:
    """Asks to open a page."""
    return (await ctx.ask("Sign in.", url=url, key="page")).action


@tool(registry=OFFERED)
async def ask_model(ctx: CallContext, tools: bool = False, context: bool = False) -> str:
    """Has the client's model say something."""
    options: dict[str, Any] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]} if tools else {}
    options |= {"include_context": "thisServer"} if context else {}
    return (await ctx.sample("What is the capital of France?", max_tokens=50, key="model", **options)).text


@tool(registry=OFFERED)
async def ask_roots(ctx: CallContext) -> list[str]:
    """Asks for the roots."""
    return [root.uri for root in await ctx.roots(key="roots")]


@tool(registry=OFFERED)
async def ask_all(ctx: CallContext) -> str:
    """Asks several questions in one round."""
    answers = await ctx.put({"name": Form("What is your name?", NAME), "model": Sampling("Hi"), "roots": Roots()})
    return f"{answers['name'].content['name']}, {answers['model'].text}, {len(answers['roots'])}"


@tool(registry=OFFERED)
def needs_name(ctx: CallContext) -> Any:
    """Returns the required input, and is called again with it."""
    if "name" not in ctx.answers:
        return NeedsInput({"name": Form("What is your name?", NAME)}, state={"step": 1})
    return f"{ctx.answers['name'].content['name']} at step {ctx.state['step']}"


@prompt(registry=OFFERED)
async def asking_prompt(ctx: CallContext) -> str:
    """Asks for a name first."""
    return f"Greet {(await ctx.ask('Whom?', NAME, key='name')).content['name']}."


@resource("test://asking", registry=OFFERED)
async def asking_resource(ctx: CallContext) -> str:
    """Asks for a name first."""
    return f"The page of {(await ctx.ask('Whose?', NAME, key='name')).content['name']}"


@tool(registry=OFFERED)
async def say(levels: list[str], ctx: CallContext) -> str:
    """Logs a message of each of these levels."""
    for number, level in enumerate(levels):
        await ctx.log(level, {"number": number, "text": f"ünï {level}"}, "tests")  # type: ignore[arg-type]
    return "said"


@tool(registry=OFFERED)
async def chatter(times: int, ctx: CallContext) -> str:
    """Logs and reports progress as fast as it can."""
    for step in range(1, times + 1):
        await ctx.log("error", step)
        await ctx.report_progress(step, times)
    return "done"
