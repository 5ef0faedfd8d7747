"""Testing tools: the official MCP client, connected to a registry in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.app.serve import as_bridge
from mcp_bridge.registry.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp.client import Client


@contextlib.asynccontextmanager
async def connect(tools: ToolRegistry | Bridge, **options: Any) -> AsyncIterator[Client]:
    """An official `mcp.Client`, connected; everything between it and the tools is the real thing, bytes apart.

    `options` are the client's own, such as `mode="legacy"` for the handshake era or a `message_handler`.
    """
    from mcp_bridge.transports.memory import client

    bridge = as_bridge(tools)
    failed: list[Exception] = []
    async with bridge.running(), anyio.create_task_group() as tasks:
        await bridge.started()
        await tasks.start(bridge.endpoint.run)
        try:
            async with client(bridge.endpoint, **options) as connected:
                try:
                    yield connected
                except Exception as error:  # a failed assert should look like one, not like a group of one
                    failed.append(error)
        finally:
            tasks.cancel_scope.cancel()
    if failed:
        raise failed[0]
