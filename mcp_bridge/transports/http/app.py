"""The ASGI app: routes, guard, lifespan. Serve it, or mount it in an app of your own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.ends import Ledger
from mcp_bridge.transports.http.guard import Access, Guard, refused
from mcp_bridge.transports.http.sessions import SessionOptions, Sessions
from mcp_bridge.transports.http.sse import MESSAGES, Sse

BODY = 4 * 1024 * 1024
MCP_HEADERS = ("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate")
_LISTEN = (b"mcp-method", b"subscriptions/listen")
_RESUMES = b"last-event-id"


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """What the app lets in: see `Access` and `SessionOptions`; `body` is the largest request in bytes."""

    access: Access = field(default_factory=Access)
    body: int = BODY
    sessions: SessionOptions = field(default_factory=SessionOptions)


class BridgeApp:
    """An endpoint over HTTP, as an ASGI app. One that mounts it needs `lifespan=app.lifespan`, or it answers 503.

    `around` is entered with the app: whatever must run beside it. `ledger` has the requests that are
    unanswered, listen streams apart. Four exact paths need no router, which would cost a call a tenth.
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
        self.ledger = Ledger()
        self.ending = False
        self._around = around
        self._running = False
        self._sessions = Sessions(endpoint.kernel, options.sessions, self.ledger, body=options.body)
        sse = Sse(endpoint, self.ledger, body=options.body, most=options.sessions.sessions)
        self._paths: dict[str, ASGIApp] = {
            "/mcp": Door(self, self._sessions.asgi_app),
            "/sse": Door(self, sse, counted=False),
            MESSAGES: Door(self, sse.messages, connected=True),
            "/health": self._health,
        }
        self._http = _guarded(self._route, options.access)
        self._rest = Starlette(lifespan=self.lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        await (self._http if scope["type"] == "http" else self._rest)(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Run the endpoint for as long as the app is up."""
        async with self._around(), self._sessions.run(), anyio.create_task_group() as tasks:
            await tasks.start(self.endpoint.run)
            self._running = True
            try:
                yield
            finally:
                self._running = False
                tasks.cancel_scope.cancel()

    def refusal(self, *, connected: bool = False) -> Response | None:
        """Why no request can be taken now, if so; a client that is connected is heard until the end."""
        if not self._running:
            return refused(503, "The bridge is not running: give the outer app lifespan=app.lifespan.")
        return refused(503, "The bridge is shutting down.") if self.ending and not connected else None

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        app = self._paths.get(path) or refused(404, "There is nothing here: MCP is at /mcp, legacy SSE at /sse.")
        await app(scope, receive, send)

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        up = self._running and not self.ending
        answer = JSONResponse({"status": "ok" if up else "unavailable"}, status_code=200 if up else 503)
        await answer(scope, receive, send)


class Door:
    """An ASGI endpoint that is open while the bridge runs. Requests behind it are counted until answered.

    Clients that are `connected`, or come back to a stream that broke, may go on while it ends: the official one gives
    up its SSE stream, with all its calls in flight, at the first message that is refused.
    """

    def __init__(self, bridge: BridgeApp, app: ASGIApp, *, counted: bool = True, connected: bool = False) -> None:
        self._bridge = bridge
        self._app = app
        self._counted = counted
        self._connected = connected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        refusal = self._bridge.refusal(connected=self._connected)
        if refusal is not None and _resumes(scope):
            refusal = self._bridge.refusal(connected=True)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif not self._counted or scope["method"] != "POST" or _LISTEN in scope["headers"]:
            await self._app(scope, receive, send)
        else:
            self._bridge.ledger.opened()
            try:
                await self._app(scope, receive, send)
            finally:
                await self._bridge.ledger.settled()


def _resumes(scope: Scope) -> bool:
    return scope["method"] == "GET" and any(name == _RESUMES for name, _ in scope["headers"])


def _guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """The app behind the guard, and behind that CORS for the web pages that may connect."""
    guard = Guard(app, access)
    if not access.origins:
        return guard
    return CORSMiddleware(
        guard,
        allow_origins=sorted(access.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=MCP_HEADERS,
    )
