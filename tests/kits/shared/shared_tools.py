"""Tools of a shared server."""

from __future__ import annotations

import asyncio
import os

from mcp_bridge import CallContext, tool


@tool
def read_pid() -> int:
    """Return the process of the server."""
    return os.getpid()


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool
async def remember(value: str, ctx: CallContext) -> str:
    """Set the value of this session, and return the one before."""
    before = await ctx.get_state("value", "nothing")
    await ctx.set_state("value", value)
    return str(before)


@tool
def read_principal(ctx: CallContext) -> str:
    """Return the caller."""
    return str(ctx.principal)


@tool
async def ask_color(ctx: CallContext) -> str:
    """Ask the user of this client."""
    answer = await ctx.ask("Which color?", str)
    return str(answer.data)


@tool
def read_variable() -> str:
    """Return a variable of the server."""
    return os.environ.get("SHELF_KEY", "")
