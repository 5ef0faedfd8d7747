"""The ASGI app: routes, access control and lifespan. Serve it, or mount it in an app of your own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.http.access import Access, AccessMiddleware, make_rejection
from mcp_bridge.transports.http.admission import AdmissionMiddleware, AdmissionState
from mcp_bridge.transports.http.connection import ClientTimeouts
from mcp_bridge.transports.http.sessions import HttpSessionManager, SessionOptions
from mcp_bridge.transports.http.sse import MESSAGES_PATH, SseEndpoint

MAX_BODY = 4 * 1024 * 1024
MCP_HEADERS = ("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate")


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Options of the app. `body` is the largest request body in bytes.

    `timeouts` apply where the server of this package runs the app.
    """

    access: Access = field(default_factory=Access)
    body: int = MAX_BODY
    sessions: SessionOptions = field(default_factory=SessionOptions)
    timeouts: ClientTimeouts = field(default_factory=ClientTimeouts)


class BridgeApp:
    """An endpoint over HTTP, as an ASGI app. An app that mounts it needs `lifespan=app.lifespan`; else it responds 503.

    `around` makes a context manager that is entered with the app. `ledger` counts the requests in flight, except
    listen streams. Four exact paths need no router, which would make a call a tenth slower.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: HttpOptions | None = None,
        *,
        around: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        options = options or HttpOptions()
        self.endpoint = endpoint
        self.timeouts = options.timeouts
        self._gate = gate = AdmissionState()
        self.ledger = gate.ledger
        self._access = options.access
        self._around = around
        self._sessions = HttpSessionManager(endpoint.kernel, options.sessions, self.ledger, body=options.body)
        self._sse = sse = SseEndpoint(endpoint, self.ledger, body=options.body, most=options.sessions.sessions)
        self._paths: dict[str, ASGIApp] = {
            "/mcp": AdmissionMiddleware(gate, self._sessions.asgi_app, body=options.body),
            "/sse": AdmissionMiddleware(gate, sse, body=0, counted=False),
            MESSAGES_PATH: AdmissionMiddleware(gate, sse.messages, body=options.body, connected=True),
            "/health": self._report_health,
        }
        self._http = _wrap_app(self._route_request, options.access)
        self._rest = Starlette(lifespan=self.lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._http if scope["type"] == "http" else self._rest)(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        async with self._around(), self._sessions.run(), anyio.create_task_group() as tasks:
            await tasks.start(self.endpoint.run)
            self._gate.running = True
            try:
                yield
            finally:
                self._gate.running = False
                tasks.cancel_scope.cancel()

    def begin_shutdown(self) -> None:
        self._gate.ending = True

    async def close(self, patience: float) -> None:
        """End every stream after its pending messages; after `patience` seconds, cut off those that are left."""
        with anyio.move_on_after(patience):
            self._sse.end_streams()
            self._sessions.end_sessions()
            await self._gate.wait_until_empty()
        self._gate.cancel_all()

    async def _route_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        app = self._paths.get(path) or make_rejection(404, "Not found. MCP is at /mcp, legacy SSE at /sse.")
        await app(scope, receive, send)

    async def _report_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Report whether calls are accepted, and to authorized clients how many threads of which tools are stuck."""
        up = self._gate.running and not self._gate.ending
        body: dict[str, Any] = {"status": "ok" if up else "unavailable"}
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if (stuck := self.endpoint.registry.pipeline.threads.stuck) and self._access.is_authorized(authorization):
            body["stuck"] = stuck
        await JSONResponse(body, status_code=200 if up else 503)(scope, receive, send)


def _wrap_app(app: ASGIApp, access: Access) -> ASGIApp:
    guard = AccessMiddleware(app, access)
    if not access.origins:
        return guard
    return CORSMiddleware(
        guard,
        allow_origins=sorted(access.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=MCP_HEADERS,
    )
