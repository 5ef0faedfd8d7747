"""BridgeApp: the ASGI app for MCP over HTTP. `server` serves it, and users can mount it in an app of their own.

It checks the access of each request and routes the request: to sessions (the handshake era), to the stateless endpoint
(2026-07-28), to the legacy transport at /sse, or to /health, /metrics and the web page.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import orjson
from anyio import to_thread

from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE_VERSIONS
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._transports.http.access import Access, AccessGuard
from mcp_bridge._transports.http.admission import Admission, make_shutdown_rejection
from mcp_bridge._transports.http.protected_resource import METADATA_PATH
from mcp_bridge._transports.http.request import ClientDisconnected, HttpRejection, HttpRequest, make_rejection
from mcp_bridge._transports.http.sessions import SessionManager, SessionOptions
from mcp_bridge._transports.http.sse import MESSAGES_PATH, SseEndpoint
from mcp_bridge._transports.http.stateless import StatelessEndpoint
from mcp_bridge._transports.http1.asgi import Receive, Scope, Send
from mcp_bridge._transports.http1.connection import ClientTimeouts

if TYPE_CHECKING:
    from mcp_bridge._transports.http.worker_group import WorkerGroup

MAX_BODY = 4 * 1024 * 1024
"""The default for the maximum number of bytes of a request's body."""
PATHS = ("/mcp", "/sse", MESSAGES_PATH)


class PageRoutes(Protocol):
    """A web page in the same app as MCP."""

    def find_handler(self, path: str) -> Callable[[HttpRequest], Awaitable[None]] | None:
        """Return the handler of a path below the root of the app, or None if the page has no such path."""

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token."""

    def end_streams(self) -> None:
        """End the open streams."""


class MetricsRenderer(Protocol):
    """Renders the metrics of the server for /metrics."""

    def render_metrics(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the body, for this value of the header Accept."""


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Options of the app.

    Attributes:
        access: The accepted hosts, origins and tokens.
        body: The maximum number of bytes of a request's body.
        sessions: The number of sessions, and how long they live.
        timeouts: The time limits for clients. They apply if the server of this package runs the app.
        shutdown_delay: The seconds after a signal in which requests are still accepted, while /health responds with
            503. It applies if the server of this package runs the app.
        background: Functions to run as tasks with the app.
        list_states: Returns the states of sources for authorized clients of /health.
        page: Serves the web page at `/`.
        metrics: Renders the metrics at /metrics.
        workers: The processes of the server, if there are several.
    """

    access: Access = field(default_factory=Access)
    body: int = MAX_BODY
    sessions: SessionOptions = field(default_factory=SessionOptions)
    timeouts: ClientTimeouts = field(default_factory=ClientTimeouts)
    shutdown_delay: float = 0.0
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    list_states: Callable[[], Mapping[str, str]] = dict
    page: PageRoutes | None = None
    metrics: MetricsRenderer | None = None
    workers: WorkerGroup | None = None


class BridgeApp:
    """An endpoint over HTTP, as an ASGI app. If another app mounts it, that app needs `lifespan=app.lifespan`.

    `around` makes a context manager, entered for the lifespan of the app.

    Attributes:
        counter: Counts the requests in flight, except listen streams.
        workers: The processes of the server, if there are several.
        is_leaving: Whether /health reports the coming shutdown, while requests are still accepted.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: HttpOptions | None = None,
        *,
        around: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._options = options = options or HttpOptions()
        self.endpoint = endpoint
        self.timeouts, self.shutdown_delay = options.timeouts, options.shutdown_delay
        self.workers = options.workers
        self._admission = admission = Admission(body=options.body)
        self.counter = admission.counter
        self._guard = AccessGuard(options.access)
        self._around = around
        self.is_leaving = False
        self._stateless = StatelessEndpoint(endpoint, admission)
        self._sessions = SessionManager(endpoint, options.sessions, admission)
        sessions = options.sessions
        self._sse = SseEndpoint(endpoint, admission, limit=sessions.sessions, id_prefix=sessions.id_prefix)
        if self._options.access.authenticator is not None:
            self._options.access.authenticator.tokens.add_removal_listener(self._end_clients)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive, send)
        rejection = None
        admission = self._admission
        task = admission.add_exchange(request)
        try:
            self._guard.check_access(request)
            if self._options.access.authenticator is not None:
                is_open = self._options.page is not None and self._options.page.is_open(_find_path(request))
                await self._guard.authenticate(request, is_open=is_open)
            if self.workers is not None:
                await self.workers.route(request, admission, self._options.body)
            await self._route_request(request)
        except ClientDisconnected:
            pass
        except HttpRejection as error:
            rejection = error
        except asyncio.CancelledError:
            rejection = admission.take_abortion(task)
            if rejection is None:
                raise
        finally:
            admission.remove_exchange(task)
        if rejection is not None:
            await request.reject(rejection)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Run the endpoint during the block. Outside of it, requests are rejected with 503."""
        admission = self._admission
        # Each listen stream keeps a connection open, and calls need connections, too.
        self.endpoint.limit_subscriptions(system.read_descriptor_limit() // 2)
        async with self._around(), anyio.create_task_group() as group:
            await group.start(self.endpoint.run)
            async with own_tasks() as admission.tasks:
                admission.is_running = True
                for task in self._options.background:
                    group.start_soon(task)
                try:
                    yield
                finally:
                    admission.is_running = False
                    with anyio.CancelScope(shield=True):
                        await self._sessions.end_all()
            group.cancel_scope.cancel()

    def begin_shutdown(self) -> None:
        """Reject new requests from now on."""
        self._admission.is_ending = True

    async def close(self, timeout: float) -> None:
        """End every stream after its pending messages. After `timeout` seconds, abort the others."""
        with anyio.move_on_after(timeout):
            self._sse.end_streams()
            if self._options.page is not None:
                self._options.page.end_streams()
            await self._sessions.end_all()
            await self._admission.wait_until_empty()
        self._admission.abort(make_shutdown_rejection(None), lambda request: True)

    def _route_request(self, request: HttpRequest) -> Awaitable[None]:
        path = request.scope["path"]
        # Nearly all requests have exactly one of these paths, so this is checked first.
        if path not in PATHS or request.scope.get("root_path"):
            path = _find_path(request)
        if path not in PATHS:
            return self._serve_other(request, path)
        if not self._admission.is_running:
            raise make_rejection(503, "The server is not running. Give the outer app lifespan=app.lifespan.")
        if path == "/sse":
            return self._sse.serve_stream(request)
        if path == MESSAGES_PATH:
            return self._sse.serve_message(request)
        version = request.get_header(b"mcp-protocol-version")
        if version is None or version in HANDSHAKE_VERSIONS:
            return self._sessions.serve(request)
        return self._stateless.serve(request, version)

    def _serve_other(self, request: HttpRequest, path: str) -> Awaitable[None]:
        """Serve a path outside of MCP."""
        if self._options.page is not None:
            serve_page = self._options.page.find_handler(path)
            if serve_page is not None:
                return serve_page(request)
        if path == "/health":
            return self._report_health(request)
        if path == "/metrics" and self._options.metrics is not None:
            return self._report_metrics(request, self._options.metrics)
        # The metadata of the server as a protected resource (RFC 9728).
        authenticator = self._options.access.authenticator
        if authenticator is not None and authenticator.resource is not None:
            resource = authenticator.resource
            if path in [f"{METADATA_PATH}{suffix}" for suffix in ("", resource.path, "/mcp", "/sse")]:
                request.check_method("GET")
                return request.respond(200, resource.render_metadata(request))
        raise make_rejection(404, "Not found. MCP is at /mcp, legacy SSE at /sse.")

    def _end_clients(self, principals: frozenset[str]) -> None:
        """End the sessions, calls and streams of principals whose tokens were removed."""
        if not self._admission.is_running:
            return
        self._sessions.end_sessions_of(principals)
        rejection = make_rejection(401, "The token of this request is no longer valid.")
        self._admission.abort(rejection, lambda request: request.read_principal() in principals)

    async def _report_health(self, request: HttpRequest) -> None:
        """Report whether calls are accepted, and to authorized clients the states of sources and stuck threads."""
        status = 503
        body: dict[str, Any] = {"status": "unavailable"}
        if self._admission.is_running and not self._admission.is_ending and not self.is_leaving:
            status = 200
            body["status"] = "ok"
        if self._options.access.authenticator is None or request.caller is not None:
            stuck_threads = self.endpoint.registry.pipeline.threads.stuck
            if stuck_threads:
                body["stuck"] = stuck_threads
            states = self._options.list_states()
            if states:
                body["sources"] = states
        if self.workers is not None and request.scope["client"] is not None:
            body["workers"] = await self.workers.describe_health(request, body)
        await request.respond(status, orjson.dumps(body))

    async def _report_metrics(self, request: HttpRequest, metrics: MetricsRenderer) -> None:
        request.check_method("GET")
        accept = request.get_header(b"accept") or ""
        # Rendering the metrics of many tools takes long, so a thread does it.
        content_type, body = await to_thread.run_sync(metrics.render_metrics, accept)
        if self.workers is not None and request.scope["client"] is not None:
            body = await self.workers.merge_metrics(request, body)
        headers = ((b"content-type", content_type.encode()), (b"cache-control", b"no-store"))
        await request.send_response(200, headers, body)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        """Run the lifespan for a server (ASGI specification, "Lifespan Protocol")."""
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            phase = "shutdown" if self._admission.is_running else "startup"
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def _find_path(request: HttpRequest) -> str:
    """Return the path below the root of the app, without a slash at its end."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).rstrip("/")
