"""Tools over every transport and in both eras."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from protocol_manifest import proves
from protocol_ways import Connected


@proves("tools/unknown-tool")
async def test_an_unknown_tool_is_a_protocol_error(connected: Connected) -> None:
    async with connected.wire() as wire:
        error = await wire.error("tools/call", {"name": "nothing", "arguments": {}})
        assert error["code"] == -32602


async def test_client(connected: Connected) -> None:
    async with connected.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.session.call_tool("nothing", {})
        assert caught.value.error.code == -32602
