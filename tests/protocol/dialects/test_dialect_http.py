"""A dialect over HTTP, where some arguments also travel as headers."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.kits.constants import TIMEOUT

TOOLS = """
import json
from mcp_bridge import ToolEntry

schema = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "sizes": {"type": "array", "items": {"type": "integer"}},
    },
    "oneOf": [
        {"required": ["region"], "properties": {"kind": {"const": "a"}}},
        {"required": ["sizes"], "properties": {"kind": {"const": "b"}}},
    ],
}
t = ToolEntry("t", "Does it.", json.dumps, schema)
"""
SETTINGS = """
dialect: claude-code
sources: [{type: python, path: tools.py}]
"""


@contextlib.asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[str]:
    """Serve a bridge in a separate process, and yield its address."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "settings.yaml").write_text(SETTINGS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mcp_bridge", "serve", "settings.yaml", "--http", str(port)]
    process = await anyio.open_process(command, cwd=folder, stdout=None, stderr=None)
    try:
        async with httpx2.AsyncClient() as http:
            with anyio.fail_after(TIMEOUT):
                while True:
                    with contextlib.suppress(httpx2.TransportError):
                        await http.get(f"http://127.0.0.1:{port}/mcp")
                        break
                    await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


async def test_arguments_in_headers_are_checked_with_a_dialect_in_both_eras(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        for mode in ("legacy", "2026-07-28"):
            with anyio.fail_after(TIMEOUT):
                await observe_client(address, mode)


async def observe_client(address: str, mode: str) -> None:
    """Return the listed headers, and the result of a call with an argument in a header and JSON in a string."""
    async with (
        httpx2.AsyncClient(timeout=30) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        [tool] = (await client.list_tools()).tools
        assert tool.input_schema["properties"]["region"] == {"type": "string", "x-mcp-header": "Region"}
        assert "oneOf" not in tool.input_schema
        result = await client.call_tool("t", {"region": "Z\u00fcrich", "kind": "a", "sizes": '["1"]'})
        assert json.loads(result.content[0].text) == {"region": "Z\u00fcrich", "kind": "a", "sizes": [1]}
