"""A bridge on a real socket, and the official client connected to it over each HTTP transport in each era."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import MAX_BODY, BridgeApp, HttpOptions
from mcp_bridge._transports.http.server import format_address, listen, serve
from mcp_bridge._transports.http.sessions import SessionOptions
from tests.kits.constants import ENVELOPE, HTTP_HEADERS, STATELESS, TIMEOUT

NOTHING: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class HttpWay:
    """A transport (`http` is Streamable HTTP) and an era of the official client."""

    transport: str
    mode: str

    def connect(self, base: str, *, token: str | None = None, **options: Any) -> AbstractAsyncContextManager[Client]:
        """Connect the official client. `options` are the client's own."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else None
        if self.transport == "sse":
            return Client(sse_client(f"{base}/sse", headers=headers, timeout=TIMEOUT), mode=self.mode, **options)
        return self._over_http(f"{base}/mcp", headers, **options)

    @contextlib.asynccontextmanager
    async def _over_http(self, url: str, headers: dict[str, str] | None, **options: Any) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=TIMEOUT) as http,
            Client(streamable_http_client(url, http_client=http), mode=self.mode, **options) as client,
        ):
            yield client


HTTP_WAYS = [HttpWay(transport, mode) for transport in ("http", "sse") for mode in ("legacy", STATELESS)]
IN_EVERY_HTTP_WAY = pytest.mark.parametrize("way", HTTP_WAYS, ids=lambda way: f"{way.transport}-{way.mode}")


def make_entry(name: str, handler: Any = None, **options: Any) -> ToolEntry:
    """Return a tool without arguments."""
    return ToolEntry(name, "A tool.", handler or (lambda data: name), NOTHING, **options)


def build_registry(*entries: ToolEntry) -> ToolRegistry:
    """Return a registry with these tools."""
    registry = ToolRegistry()
    registry.publish("test", entries)
    return registry


@contextlib.asynccontextmanager
async def serve_http(
    tools: ToolRegistry | Bridge,
    *,
    access: Access | None = None,
    body: int = MAX_BODY,
    sessions: SessionOptions | None = None,
    options: HttpOptions | None = None,
) -> AsyncIterator[tuple[str, BridgeApp]]:
    """Serve a bridge on a free port, and yield its base URL and its app."""
    bridge = to_bridge(tools)
    options = options or HttpOptions(access=access or Access(), body=body, sessions=sessions or SessionOptions())
    app = BridgeApp(bridge.endpoint, options, around=bridge.run_sources)
    bound = listen("127.0.0.1", 0, has_token=False)
    async with anyio.create_task_group() as tasks:
        up = anyio.Event()
        tasks.start_soon(partial(serve, app, bound, handles_signals=False, started=up.set))
        await up.wait()
        yield format_address(bound), app
        tasks.cancel_scope.cancel()


@contextlib.contextmanager
def serve_http_in_thread(tools: ToolRegistry, *, access: Access | None = None, body: int = MAX_BODY) -> Iterator[str]:
    """Run `serve_http` in a separate thread, for tests with plain HTTP."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve_http(tools, access=access, body=body)) as (base, _),
    ):
        yield base


@contextlib.asynccontextmanager
async def serve_with_uvicorn(app: Any) -> AsyncIterator[str]:
    """Serve any ASGI app with uvicorn on a free port, and yield its base URL."""
    bound = listen("127.0.0.1", 0, has_token=False)
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [bound])
        try:
            yield format_address(bound)
        finally:
            server.should_exit = True


def make_stateless_request(method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
    """Return the keyword arguments of httpx2 for a POST in the stateless era."""
    params = params or {}
    name_header = {"Mcp-Name": params["name"]} if "name" in params else {}
    return {
        "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}},
        "headers": {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS, "Mcp-Method": method, **name_header, **headers},
    }


def make_initialize(version: str = "2025-06-18") -> dict[str, Any]:
    """Return the first message of a handshake."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


class Gate:
    """A handler with events for its start and its cancellation. It waits to be released."""

    def __init__(self) -> None:
        self.begun, self.release, self.cancelled = anyio.Event(), anyio.Event(), anyio.Event()

    async def __call__(self, data: Any) -> str:
        self.begun.set()
        try:
            await self.release.wait()
        except BaseException:
            self.cancelled.set()
            raise
        return "released"
