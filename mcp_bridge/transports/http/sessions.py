"""The sessions of the handshake era: how many, for how long, and how their broken streams are resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from mcp_bridge.contracts.store import Store
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.stores.memory import MemoryStore
from mcp_bridge.stores.patient import PatientStore
from mcp_bridge.transports.ends import Ledger
from mcp_bridge.transports.http.bodies import Bodies
from mcp_bridge.transports.http.events import Events


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming:
    """How a stream that broke is resumed: `events` messages of each session are kept, in `store` (None: in memory).

    `retry` is how many seconds clients are told to wait before they come back.
    """

    events: int = 256
    retry: float = 1.0
    store: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """At most so many `sessions`; one without a request for `idle` seconds ends. None: streams cannot be resumed.

    One session more ends the one that rests longest; where none rests, the newcomer is refused with 503.
    """

    sessions: int = 1000
    idle: float = 1800.0
    resuming: Resuming | None = Resuming()


class Session(StreamableHTTPServerTransport):
    """The SDK's transport of one session, which tells its events when a stream or the session itself is closed.

    In `resting` are those without a request or a stream, the one that rests longest first.
    """

    def __init__(
        self, session_id: str, resting: dict[str, Session], events: Events | None, idle: float, **options: Any
    ) -> None:
        super().__init__(session_id, event_store=events, idle_timeout=idle, **options)
        self._events = events
        self._resting = resting
        self._name = session_id
        self._open = 0
        if events is not None:
            events.resumed = super().close_sse_stream  # the old connection may be dead without our knowing

    @property
    def awaited(self) -> bool:
        """Whether a call is in flight whose client may come back for the answer."""
        return self._events is not None and self._events.awaited

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or serve a stream."""
        self._resting.pop(self._name, None)
        self._open += 1
        try:
            await super().handle_request(scope, receive, send)
        finally:
            self._open -= 1
            if not self._open and not self.is_terminated:
                self._resting[self._name] = self

    def give_way(self) -> None:
        """End, as after an idle time."""
        self._resting.pop(self._name, None)
        if self.idle_scope is not None:
            self.idle_scope.cancel()

    def close_sse_stream(self, request_id: Any) -> None:
        """Close the connection of a request's stream, also where it was resumed; its client will come back."""
        super().close_sse_stream(request_id)
        if self._events is not None:
            self._events.closed(str(request_id))

    async def terminate(self) -> None:
        """End the session."""
        self._resting.pop(self._name, None)
        await super().terminate()
        if self._events is not None:
            await self._events.end()

    def _create_event_data(self, event_message: EventMessage) -> dict[str, Any]:
        # Written once, for the store and for the wire: twice costs a large answer a twentieth.
        text = self._events.written(event_message.event_id) if self._events is not None else None
        if text is None:
            return super()._create_event_data(event_message)
        return {"event": "message", "data": text, "id": event_message.event_id}


class Sessions(StreamableHTTPSessionManager):
    """The SDK's manager with events of its own for each session. `ledger` counts those who wait on resumed streams."""

    def __init__(self, kernel: Kernel, options: SessionOptions, ledger: Ledger, *, body: int) -> None:
        self._ledger = ledger
        self._idle = options.idle
        self._resuming = options.resuming
        self._resting: dict[str, Session] = {}
        given = self._resuming.store if self._resuming is not None else None
        store = given if given is not None else MemoryStore()
        self._store = store if isinstance(store, MemoryStore) else PatientStore(store)
        super().__init__(
            kernel,
            max_request_body_size=body,
            session_idle_timeout=self._idle,
            max_sessions=options.sessions,
            retry_interval=int(self._resuming.retry * 1000) if self._resuming is not None else None,
        )
        self.asgi_app.app = Bodies(self.asgi_app.app)

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        # The SDK makes the transport in here and gives it the one store of all sessions; nothing public is nearer.
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            self._make_room()
        made = super()._admit_session(requestor)
        if made is None or made.mcp_session_id is None:
            return None
        events = None
        if self._resuming is not None:
            events = Events(self._store, self._ledger, most=self._resuming.events, ttl=self._idle)
        options = {"security_settings": self.security_settings, "retry_interval": self.retry_interval}
        session = Session(made.mcp_session_id, self._resting, events, self._idle, **options)
        self._server_instances[made.mcp_session_id] = session
        return session

    def end(self) -> None:
        """End every session: clients hear the end of their streams."""
        for session in list(self._server_instances.values()):
            if isinstance(session, Session):
                session.give_way()

    def _make_room(self) -> None:
        """End the session that rests longest, for one client must not lock all others out."""
        for name, session in self._resting.items():
            if not session.awaited:
                self._server_instances.pop(name, None)
                self._session_owners.pop(name, None)
                session.give_way()
                return
