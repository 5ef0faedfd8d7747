"""Example tools for a deployment."""

from __future__ import annotations

import asyncio

from mcp_bridge import CallContext, tool


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@tool
async def report(pages: int, ctx: CallContext) -> str:
    """Write a report, one page a second."""
    for page in range(pages):
        await asyncio.sleep(1)
        await ctx.report_progress(page + 1, pages)
    return f"{pages} pages"
