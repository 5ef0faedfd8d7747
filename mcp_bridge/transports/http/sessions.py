"""Sessions of the handshake era: their number, their idle timeout, and how broken streams are resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from mcp_bridge.contracts.store import Store
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.stores.fault_tolerant import FaultTolerantStore
from mcp_bridge.stores.memory import MemoryStore
from mcp_bridge.transports.http.body_validation import BodyMiddleware
from mcp_bridge.transports.http.event_store import SessionEventStore
from mcp_bridge.transports.shutdown import RequestCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """How broken streams are resumed: `events` messages of each session are stored in `store` (None: in memory).

    `retry` is how many seconds clients have to wait before they resume a stream.
    """

    events: int = 256
    retry: float = 1.0
    store: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """At most so many `sessions`; one without a request for `idle` seconds ends. None: streams cannot be resumed.

    One session more ends the one that has been idle longest. If none is idle, the new one is rejected with 503.
    """

    sessions: int = 1000
    idle: float = 1800.0
    resuming: ResumeOptions | None = ResumeOptions()


class HttpSession(StreamableHTTPServerTransport):
    """The SDK's transport of one session, which notifies its event store when a stream or the session is closed.

    `resting` has the sessions without a request or a stream, the one that has been idle longest first.
    """

    def __init__(
        self,
        session_id: str,
        resting: dict[str, HttpSession],
        events: SessionEventStore | None,
        idle: float,
        **options: Any,
    ) -> None:
        super().__init__(session_id, event_store=events, idle_timeout=idle, **options)
        self._events = events
        self._resting = resting
        self._name = session_id
        self._open = 0
        if events is not None:
            events.resumed = super().close_sse_stream  # the old connection may be dead without being closed

    @property
    def has_open_requests(self) -> bool:
        """Whether a call is in flight whose client may come back for the result."""
        return self._events is not None and self._events.has_open_requests

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._resting.pop(self._name, None)
        self._open += 1
        try:
            await super().handle_request(scope, receive, send)
        finally:
            self._open -= 1
            if not self._open and not self.is_terminated:
                self._resting[self._name] = self

    def end_session(self) -> None:
        self._resting.pop(self._name, None)
        if self.idle_scope is not None:
            self.idle_scope.cancel()

    def close_sse_stream(self, request_id: Any) -> None:
        """Close the connection of a request's stream, also if it was resumed; the client resumes it later."""
        super().close_sse_stream(request_id)
        if self._events is not None:
            self._events.handle_closed_stream(str(request_id))

    async def terminate(self) -> None:
        self._resting.pop(self._name, None)
        await super().terminate()
        if self._events is not None:
            await self._events.end_streams()

    def _create_event_data(self, event_message: EventMessage) -> dict[str, Any]:
        # Encoded once for the store and the response: a second time would make a large result 5 % slower.
        text = self._events.pop_encoded(event_message.event_id) if self._events is not None else None
        if text is None:
            return super()._create_event_data(event_message)
        return {"event": "message", "data": text, "id": event_message.event_id}


class HttpSessionManager(StreamableHTTPSessionManager):
    """The SDK's manager with an event store for each session. `ledger` counts clients that wait on resumed streams."""

    def __init__(self, kernel: Kernel, options: SessionOptions, ledger: RequestCounter, *, body: int) -> None:
        self._ledger = ledger
        self._idle = options.idle
        self._resuming = options.resuming
        self._resting: dict[str, HttpSession] = {}
        given = self._resuming.store if self._resuming is not None else None
        store = given if given is not None else MemoryStore()
        self._store = store if isinstance(store, MemoryStore) else FaultTolerantStore(store)
        super().__init__(
            kernel,
            max_request_body_size=body,
            session_idle_timeout=self._idle,
            max_sessions=options.sessions,
            retry_interval=int(self._resuming.retry * 1000) if self._resuming is not None else None,
        )
        self.asgi_app.app = BodyMiddleware(self.asgi_app.app)

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        # The SDK makes the transport in here, with one store for all sessions. There is no public way to replace it.
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            self._end_idle_session()
        made = super()._admit_session(requestor)
        if made is None or made.mcp_session_id is None:
            return None
        events = None
        if self._resuming is not None:
            events = SessionEventStore(self._store, self._ledger, most=self._resuming.events, ttl=self._idle)
        options = {"security_settings": self.security_settings, "retry_interval": self.retry_interval}
        session = HttpSession(made.mcp_session_id, self._resting, events, self._idle, **options)
        self._server_instances[made.mcp_session_id] = session
        return session

    def end_sessions(self) -> None:
        for session in list(self._server_instances.values()):
            if isinstance(session, HttpSession):
                session.end_session()

    def _end_idle_session(self) -> None:
        """End the session that has been idle longest, so that one client cannot lock out all others."""
        for name, session in self._resting.items():
            if not session.has_open_requests:
                self._server_instances.pop(name, None)
                self._session_owners.pop(name, None)
                session.end_session()
                return
