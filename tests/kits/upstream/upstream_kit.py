"""Bridges in front of real server processes (plain_server.py), and their settings."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.source import SourceContext, SourceStatus
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._settings import load
from mcp_bridge._sources.upstream.options import UpstreamOptions
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge.testing import connect

SERVER = Path(__file__).with_name("plain_server.py")
Json = dict[str, Any]


def write_command(fault: str = "", token: str = "", **options: Any) -> Json:
    """Return the settings of a server over stdio."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), "stdio", fault, token], **options}


@contextlib.contextmanager
def run_http_server(fault: str = "", port: int = 0) -> Iterator[str]:
    """Run a server over HTTP; yield its base URL."""
    command = [sys.executable, "-I", "-S", str(SERVER), "http", fault, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def write_settings(folder: Path, servers: Json, **settings: Any) -> Path:
    """Write a settings file with these servers."""
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers, **settings}))
    return file


def build_gateway(folder: Path, servers: Json, **settings: Any) -> Bridge:
    """Build a bridge in front of these servers."""
    return build_from_settings(load(write_settings(folder, servers, **settings), {}))


@contextlib.asynccontextmanager
async def connect_gateway(folder: Path, servers: Json, **settings: Any) -> AsyncIterator[Client]:
    """Connect the official client to a bridge in front of these servers."""
    async with connect(build_gateway(folder, servers, **settings)) as client:
        yield client


async def call_text(client: Client, tool: str, text: str = "hello") -> str:
    """Call a tool and return the text of its result, or of its error."""
    result = await client.call_tool(tool, {"text": text})
    return "\n".join(block.text for block in result.content if block.type == "text")


async def list_names(client: Client) -> list[str]:
    """List the names of the tools."""
    return [tool.name for tool in (await client.list_tools()).tools]


async def wait_for_tool(client: Client, name: str, seconds: float = 20) -> None:
    """Wait until a tool is listed."""
    with anyio.fail_after(seconds):
        while name not in await list_names(client):  # noqa: ASYNC110 - what a client sees
            await anyio.sleep(0.02)


def build_source(entry: Json, folder: Path) -> UpstreamSource:
    """Build the source of one server."""
    return UpstreamSource("server", UpstreamOptions(**entry), SourceContext(directory=folder))


@contextlib.asynccontextmanager
async def run_source(
    entry: Json, folder: Path, *, registry: ToolRegistry | None = None
) -> AsyncIterator[tuple[UpstreamSource, Client]]:
    """Run one server without a prefix; yield its source, and a client."""
    source = build_source(entry, folder)
    async with connect(Bridge(registry, [AttachedSource(source=source)]), cache=None) as client:
        yield source, client


async def wait_for_state(source: UpstreamSource, state: str, seconds: float = 20) -> SourceStatus:
    """Wait until a source has a state, and return its status."""
    with anyio.fail_after(seconds):
        while source.status.state != state:  # noqa: ASYNC110 - a status has no event
            await anyio.sleep(0.02)
    return source.status


def find_free_port() -> int:
    """Find a free port."""
    with socket.socket() as toolbox:
        toolbox.bind(("127.0.0.1", 0))
        port: int = toolbox.getsockname()[1]
    return port
