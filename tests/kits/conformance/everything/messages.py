"""Tools with messages during the call: log messages, progress, and a stream that ends early."""

from __future__ import annotations

import asyncio

from shelf import registry

from mcp_bridge import CallContext, tool

PAUSE = 0.05
"""Seconds between two messages. The suite requires this pause, so that they arrive separately."""


@tool(registry=registry)
async def test_tool_with_logging(ctx: CallContext) -> str:
    """Send three log messages, then answer."""
    await ctx.log("info", "Tool execution started")
    await asyncio.sleep(PAUSE)
    await ctx.log("info", "Tool processing data")
    await asyncio.sleep(PAUSE)
    await ctx.log("info", "Tool execution completed")
    return "Three messages were logged."


@tool(registry=registry)
async def test_logging_tool(ctx: CallContext) -> str:
    """Send a log message. Only clients that asked for messages may receive it."""
    await ctx.log("info", "The logging tool was called", logger="everything")
    return "One message was logged."


@tool(registry=registry)
async def test_tool_with_progress(ctx: CallContext) -> str:
    """Report progress three times, then return."""
    await ctx.report_progress(0, 100)
    await asyncio.sleep(PAUSE)
    await ctx.report_progress(50, 100)
    await asyncio.sleep(PAUSE)
    await ctx.report_progress(100, 100)
    return "The work is done."


@tool(registry=registry)
async def test_reconnection(ctx: CallContext) -> str:
    """Close the client's stream during the call, and return the result after the client has reconnected."""
    # Wait until the client has received an event, because it reconnects with the event's id.
    await asyncio.sleep(PAUSE)
    await ctx.close_stream()
    await asyncio.sleep(2 * PAUSE)
    return "The answer came on another stream."
