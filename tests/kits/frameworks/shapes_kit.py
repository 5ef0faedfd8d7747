"""Connects the official client to a bridge with converted tools of frameworks."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.client import Client

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@asynccontextmanager
async def serve_tools(*entries: ToolEntry) -> AsyncIterator[Client]:
    """Yield the official client, connected to a bridge with these tools."""
    registry = ToolRegistry()
    for entry in entries:
        registry.register(entry)
    with anyio.fail_after(TIMEOUT):
        async with connect(registry) as client:
            yield client


async def get_input_schema(client: Client, name: str) -> dict[str, Any]:
    """Return the input schema of a tool from the list of a client."""
    (result,) = [tool for tool in (await client.list_tools()).tools if tool.name == name]
    return dict(result.input_schema)


async def call_text(client: Client, name: str, **arguments: Any) -> str:
    """Return the texts of a result, a line each. An error begins with its code."""
    answer = await client.call_tool(name, arguments)
    text = "\n".join(block.text for block in answer.content if block.type == "text")
    code = (answer.meta or {}).get("mcp-bridge/code")
    return f"{code}: {text}" if answer.is_error else text
