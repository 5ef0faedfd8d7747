"""Tools for the audit trail."""

import anyio

from mcp_bridge import CallContext, ToolError, prompt, resource, tool


@tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def sign_in(user: str, password: str, options: dict[str, list[int]] | None = None) -> str:
    """Sign in."""
    return f"{user} is signed in."


@tool
async def add_twice(a: int, ctx: CallContext) -> int:
    """Call another tool twice."""
    first = await ctx.invoke("add", {"a": a, "b": a})
    second = await ctx.invoke("add", {"a": first.output, "b": 1})
    return second.output


@tool
async def wait(ctx: CallContext) -> str:
    """Wait until the call is cancelled."""
    await ctx.report_progress(1)
    await anyio.sleep_forever()
    return "never"


@tool
def refuse() -> str:
    """Fail."""
    raise ToolError("Not today.", code="closed")


@resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"The note {name}."


@prompt
def greet(name: str) -> str:
    """Greet someone."""
    return f"Hello, {name}."
