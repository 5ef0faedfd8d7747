"""Requests in a race with the end of their session get a response, and no error is logged."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports.http.app import BridgeApp
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import (
    Gate,
    build_registry,
    make_entry,
    make_initialize,
    serve_http,
    serve_with_uvicorn,
)

pytestmark = pytest.mark.anyio
VERSION = "2025-11-25"
ROUNDS = 40


@contextlib.asynccontextmanager
async def serve_on(server: str, tools: ToolRegistry) -> AsyncIterator[str]:
    """Serve on the server of this package, or on uvicorn."""
    if server == "own":
        async with serve_http(tools) as (base, _):
            yield base
        return
    async with serve_with_uvicorn(BridgeApp(Bridge(tools).endpoint)) as base:
        yield base


async def open_session(http: httpx2.AsyncClient, base: str) -> dict[str, str]:
    """Return the headers of requests of a new session."""
    response = await http.post(f"{base}/mcp", json=make_initialize(VERSION), headers=HTTP_HEADERS)
    return {**HTTP_HEADERS, "Mcp-Session-Id": response.headers["mcp-session-id"], "Mcp-Protocol-Version": VERSION}


def format_call(headers: dict[str, str], base: str) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work"}}).encode()
    lines = [f"{name}: {value}" for name, value in {**headers, "Host": base.removeprefix("http://")}.items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def connect(base: str) -> SocketStream:
    host, _, port = base.removeprefix("http://").rpartition(":")
    return await anyio.connect_tcp(host, int(port))


@pytest.mark.parametrize("server", ["own", "uvicorn"])
async def test_a_session_may_end_while_a_message_of_it_arrives(server: str, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        serve_on(server, build_registry(make_entry("work"))) as base,
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
        await connect(base) as connection,
    ):
        headers = await open_session(http, base)
        request = format_call(headers, base)
        await connection.send(request[:-10])
        assert (await http.delete(f"{base}/mcp", headers=headers)).status_code == 200
        await connection.send(request[-10:])
        with anyio.fail_after(TIMEOUT):
            assert b" 404 " in (await connection.receive()).partition(b"\r\n")[0]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("server", ["own", "uvicorn"])
async def test_a_session_may_end_while_its_calls_start_run_and_end(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate, statuses = Gate(), set()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work"}}
    tools = build_registry(make_entry("work"), make_entry("waits", gate))
    async with serve_on(server, tools) as base, httpx2.AsyncClient(timeout=TIMEOUT) as http:

        async def post(headers: dict[str, str], name: str) -> None:
            message = {**call, "id": name, "params": {"name": name}}
            statuses.add((await http.post(f"{base}/mcp", json=message, headers=headers)).status_code)

        for _ in range(ROUNDS):
            headers = await open_session(http, base)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(post, headers, "waits")
                tasks.start_soon(post, headers, "work")
                statuses.add((await http.delete(f"{base}/mcp", headers=headers)).status_code)
    assert statuses <= {200, 404}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
