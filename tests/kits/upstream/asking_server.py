"""A server on the official SDK with tools that ask in the handshake way: `python asking_server.py [http PORT]`."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import InputRequiredResult, SamplingMessage, TextContent
from pydantic import BaseModel, Field

warnings.simplefilter("ignore")
mcp = MCPServer("asking", log_level="ERROR")
cancelled: list[str] = []


class Order(BaseModel):
    """Every type of form fields, with defaults."""

    name: str = Field(default="Bob", min_length=2, max_length=20)
    mail: str = Field(json_schema_extra={"format": "email"})
    count: int = Field(default=2, ge=1, le=9)
    weight: float = 1.5
    gift: bool = True
    colour: Literal["red", "blue"] = "blue"
    extras: list[Literal["card", "ribbon"]] = ["card"]


@mcp.tool()
async def fill_form(ctx: Context[Any]) -> str:
    """Ask for an order."""
    answer = await ctx.elicit("Your order?", Order)
    return answer.data.model_dump_json() if answer.action == "accept" else answer.action


@mcp.tool()
async def open_link(ctx: Context[Any]) -> str:
    """Ask the user to open a page."""
    answer = await ctx.elicit_url("Sign in.", "https://example.com/login", "one")
    return answer.action


@mcp.tool()
async def ask_model(ctx: Context[Any]) -> str:
    """Ask the client's model."""
    content = TextContent(type="text", text="Hello")
    result = await ctx.session.create_message([SamplingMessage(role="user", content=content)], max_tokens=7)
    return result.content.text if isinstance(result.content, TextContent) else "?"


@mcp.tool()
async def list_roots(ctx: Context[Any]) -> str:
    """List the client's roots."""
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@mcp.tool()
async def report(ctx: Context[Any]) -> str:
    """Report progress, and log."""
    for step in (1, 2):
        await ctx.report_progress(step, 2, f"step {step}")
    await ctx.session.send_log_message("warning", "careful", "work", related_request_id=ctx.request_id)
    return "reported"


@mcp.tool()
async def wait(ctx: Context[Any], label: str) -> str:
    """Wait until the call is cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.append(label)
        raise
    return "never"


@mcp.tool()
async def show_cancelled() -> str:
    """Show the cancelled calls."""
    return ", ".join(cancelled)


@mcp.tool()
async def ask_by_result(ctx: Context[Any]) -> str | InputRequiredResult:
    """Ask by an input request, which exists only in 2026-07-28."""
    if ctx.input_responses:
        return str(ctx.input_responses["it"].action)
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": form}}
    return InputRequiredResult.model_validate({"inputRequests": {"it": question}, "requestState": "s"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        mcp.run("streamable-http", port=int(sys.argv[2]))
    else:
        mcp.run()
