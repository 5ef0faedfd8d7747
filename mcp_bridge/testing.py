"""Connects the official MCP client to a registry in memory, for tests of tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._engine.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp.client import Client


@contextlib.asynccontextmanager
async def connect(tools: ToolRegistry | Bridge, **options: Any) -> AsyncIterator[Client]:
    """Connect the official `mcp.Client` to tools. Everything between them is real, except the transport.

    The client needs the extra `testing`: `pip install 'mcp-tool-bridge[testing]'`.

    Args:
        tools: The registry or bridge to serve.
        options: Options of the client, such as `mode="legacy"` for the handshake versions, or a `message_handler`.

    >>> import asyncio
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> async def call_double() -> str:
    ...     registry = ToolRegistry()
    ...     registry.tool(double)
    ...     async with connect(registry) as client:
    ...         result = await client.call_tool("double", {"number": 21})
    ...     return result.content[0].text
    >>> asyncio.run(call_double())
    '42'
    """
    from mcp_bridge._transports.memory import make_client

    bridge = to_bridge(tools)
    client = make_client(bridge.endpoint, **options)
    # The task group would wrap the error of a test, such as a failed assert, in a group. So it is raised outside.
    errors: list[Exception] = []
    async with bridge.run_sources(), anyio.create_task_group() as tasks:
        await bridge.wait_until_started()
        await tasks.start(bridge.endpoint.run)
        try:
            async with client as session:
                try:
                    yield session
                except Exception as error:
                    errors.append(error)
        finally:
            tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]
