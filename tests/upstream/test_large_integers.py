"""Integers of more than 64 bits are exact in arguments and results, on every way to a tool."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp_bridge.testing import connect
from tests.kits.isolation.isolation_kit import build_bridge
from tests.kits.node.served import run_server
from tests.kits.upstream.upstream_kit import connect_gateway, wait_for_tool

pytestmark = pytest.mark.anyio
NUMBERS = [2**64, -(2**63) - 1, 10**308, 2**53 + 1, -1]
EXPECTED = {"numbers": NUMBERS, "texts": [str(number) for number in NUMBERS]}
TOOLS = """
from mcp_bridge import tool

@tool
def echo(numbers: list[int]) -> dict[str, list[int] | list[str]]:
    return {"numbers": numbers, "texts": [str(number) for number in numbers]}
"""
SDK_SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")

@server.tool()
def echo(numbers: list[int]) -> dict[str, list[int] | list[str]]:
    return {"numbers": numbers, "texts": [str(number) for number in numbers]}

server.run()
"""
POLICIES: dict[str, Any] = {
    "a cache": [{"cache": {"tools": "echo"}}],
    "redaction": [{"redact": {}}],
    "an audit trail": [{"audit": {"path": "audit.db", "arguments": "full"}}],
}


async def echo(client: Any, name: str = "echo") -> None:
    # A cache returns what it keeps to the second call.
    for _ in range(2):
        result = await client.call_tool(name, {"numbers": NUMBERS})
        assert not result.is_error, result
        assert result.structured_content == EXPECTED
        assert json.loads(result.content[0].text) == EXPECTED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("integers")
    (folder / "tools.py").write_text(TOOLS)
    (folder / "server.py").write_text(SDK_SERVER)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    command = (sys.executable, "-m", "mcp_bridge", "serve", "tools.py", "--http", "127.0.0.1:0")
    with run_server(command, folder) as url:
        yield url


async def test_large_integers_are_exact_over_stdio(folder: Path) -> None:
    arguments = ["-m", "mcp_bridge", "serve", str(folder / "tools.py")]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments))) as client:
        await echo(client)


async def test_large_integers_are_exact_over_http(url: str) -> None:
    async with Client(url) as client:
        await echo(client)


async def test_large_integers_are_exact_over_sse(url: str) -> None:
    async with Client(sse_client(f"{url.removesuffix('/mcp')}/sse"), mode="legacy") as client:
        await echo(client)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_large_integers_are_exact_through_the_gateway(
    transport: str, folder: Path, url: str, tmp_path: Path
) -> None:
    entry: dict[str, Any] = {"url": url}
    if transport == "stdio":
        entry = {"command": sys.executable, "args": [str(folder / "server.py")]}
    elif transport == "sse":
        entry = {"type": "sse", "url": f"{url.removesuffix('/mcp')}/sse"}
    async with connect_gateway(tmp_path, {"echo": entry}) as client:
        await wait_for_tool(client, "echo__echo")
        await echo(client, "echo__echo")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_large_integers_are_exact_from_workers(mode: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, "process", tools=TOOLS), mode=mode) as client:
        await echo(client)


@pytest.mark.parametrize("policy", POLICIES)
async def test_large_integers_are_exact_with_policies(policy: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, tools=TOOLS, policy=POLICIES[policy])) as client:
        await echo(client)


async def test_a_request_with_a_large_integer_as_id_is_rejected_without_an_id(url: str) -> None:
    message = b'{"jsonrpc": "2.0", "id": 18446744073709551616, "method": "ping"}'
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as client:
        response = await client.post(url, content=message, headers=headers)
    assert response.status_code == 400
    assert response.json()["id"] is None


def test_large_integers_are_exact_on_the_command_line(folder: Path) -> None:
    command = [sys.executable, "-m", "mcp_bridge", "call", str(folder / "tools.py"), "echo", "--json"]
    process = subprocess.run([*command, json.dumps({"numbers": NUMBERS})], capture_output=True, check=True)
    assert json.loads(process.stdout)["output"] == EXPECTED
