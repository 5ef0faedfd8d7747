"""One real HTTP server for all tests of a run, because its start is slow. It serves one bridge after the other."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import BridgeApp, HttpOptions
from mcp_bridge._transports.http.server import format_address, listen


@dataclass
class Hosting:
    """A socket on loopback with uvicorn behind it in a separate thread. Behind uvicorn is `app`."""

    portal: BlockingPortal
    base: str
    app: Any = None
    asgi: Any = field(init=False)

    def __post_init__(self) -> None:
        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

        self.asgi = asgi

    @contextlib.contextmanager
    def serving(self, bridge: Bridge, *, token: str | None = None, **options: Any) -> Iterator[str]:
        """Serve a bridge during the block, and yield the base URL."""
        access = Access.for_host("127.0.0.1", token=token)
        app = BridgeApp(bridge.endpoint, HttpOptions(access=access, **options), around=bridge.run_sources)
        with self.serve_app(app) as base:
            yield base

    @contextlib.contextmanager
    def serve_app(self, app: BridgeApp, outer: Any = None) -> Iterator[str]:
        """Serve this app, or `outer` around it, until the block ends, and yield the base URL."""
        with self.portal.wrap_async_context_manager(app.lifespan()):
            self.app = outer or app
            yield self.base


@contextlib.contextmanager
def run_host() -> Iterator[Hosting]:
    """Yield an HTTP server without an app."""
    bound = listen("127.0.0.1", 0, has_token=False)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with start_blocking_portal() as portal:
        host = Hosting(portal, format_address(bound))
        config = uvicorn.Config(
            host.asgi, lifespan="off", log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1
        )
        with portal.wrap_async_context_manager(_running(uvicorn.Server(config), bound)):
            yield host


@contextlib.asynccontextmanager
async def _running(server: uvicorn.Server, bound: Any) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [bound])
        try:
            yield
        finally:
            server.should_exit = True
