"""The sessions of the handshake era: how many, for how long, and how their broken streams are resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_bridge.contracts.store import Store
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.stores.memory import MemoryStore
from mcp_bridge.stores.patient import PatientStore
from mcp_bridge.transports.ends import Ledger
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
    """At most so many `sessions`; one without a request for `idle` seconds ends. None: streams cannot be resumed."""

    sessions: int = 1000
    idle: float = 1800.0
    resuming: Resuming | None = Resuming()


class Session(StreamableHTTPServerTransport):
    """The SDK's transport of one session, which tells its events when a stream or the session itself is closed."""

    def __init__(self, session_id: str | None, events: Events, **options: Any) -> None:
        super().__init__(session_id, event_store=events, **options)
        self._events = events
        events.resumed = super().close_sse_stream  # the old connection may be dead without our knowing

    def _create_event_data(self, event_message: EventMessage) -> dict[str, Any]:
        # Written once, for the store and for the wire: twice costs a large answer a twentieth.
        text = self._events.written(event_message.event_id)
        if text is None:
            return super()._create_event_data(event_message)
        return {"event": "message", "data": text, "id": event_message.event_id}

    def close_sse_stream(self, request_id: Any) -> None:
        """Close the connection of a request's stream, also where it was resumed; its client will come back."""
        super().close_sse_stream(request_id)
        self._events.closed(str(request_id))

    async def terminate(self) -> None:
        """End the session."""
        await super().terminate()
        await self._events.end()


class Sessions(StreamableHTTPSessionManager):
    """The SDK's manager with events of its own for each session. `ledger` counts those who wait on resumed streams."""

    def __init__(self, kernel: Kernel, options: SessionOptions, ledger: Ledger, *, body: int) -> None:
        self._ledger = ledger
        self._idle = options.idle
        self._resuming = options.resuming
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

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        # The SDK makes the transport in here and gives it the one store of all sessions; nothing public is nearer.
        made = super()._admit_session(requestor)
        if made is None or self._resuming is None or made.mcp_session_id is None:
            return made
        events = Events(self._store, self._ledger, most=self._resuming.events, ttl=self._idle)
        session = Session(
            made.mcp_session_id,
            events,
            security_settings=self.security_settings,
            retry_interval=self.retry_interval,
            idle_timeout=self._idle,
        )
        self._server_instances[made.mcp_session_id] = session
        return session
