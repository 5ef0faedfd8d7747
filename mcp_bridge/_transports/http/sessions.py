"""SessionManager: the sessions of the handshake era over Streamable HTTP.

It opens a session for each initialization, finds the session of each later request, and ends idle sessions.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from secrets import token_hex

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR
from mcp_bridge._contracts.store import Store
from mcp_bridge._protocol.peer.connection import Message, make_error
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._server.requests import has_envelope
from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._transports.http.admission import Admission
from mcp_bridge._transports.http.event_log import EventLog, MemoryEvents, StoredEvents
from mcp_bridge._transports.http.header_checks import VERSION_HEADER, VERSION_PART, make_mismatch
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, make_rejection
from mcp_bridge._transports.http.session import HttpSession, SessionStream

SESSION_ID = b"mcp-session-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """How clients resume broken streams.

    Attributes:
        events: The maximum number of stored messages of a session.
        retry: The seconds clients have to wait before they resume a stream.
        store: The store for messages. None means memory.
    """

    events: int = 256
    retry: float = 1.0
    store: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The limits of sessions.

    Attributes:
        sessions: The maximum number of sessions. A further one ends the session with the longest idle time. If none is
            idle, the new one is rejected with 503.
        idle: The seconds without a request after which a session ends.
        resuming: How clients resume broken streams. None: they cannot.
        id_prefix: The begin of the id of each session, in hexadecimal digits.
    """

    sessions: int = 1000
    idle: float = 1800.0
    resuming: ResumeOptions | None = ResumeOptions()
    id_prefix: str = ""


class SessionManager:
    """Opens and ends sessions, and passes requests to them."""

    def __init__(self, endpoint: Endpoint, options: SessionOptions, admission: Admission) -> None:
        self._endpoint = endpoint
        self._options = options
        self._admission = admission
        self._sessions: dict[str, HttpSession] = {}
        # The idle sessions with the times at which they became idle, the oldest first.
        self._idle: dict[HttpSession, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._memory = MemoryEvents()

    async def serve(self, request: HttpRequest) -> None:
        """Serve a request. Raises HttpRejection."""
        session_id = request.get_header(SESSION_ID)
        session = self._sessions.get(session_id) if session_id is not None else None
        if session_id is not None and (session is None or session.principal != request.read_principal()):
            raise make_rejection(404, "Session not found")
        request.check_method("GET", "POST", "DELETE")
        message = None
        last_event = request.get_header(b"last-event-id")
        if request.method == "POST":
            request.check_message()
            message = await self._admission.read_message(request)
            # The session may have ended while the message was read.
            if session is not None and session.is_ended:
                raise make_rejection(404, "Session not found")
            if session is None:
                session = self._open_session(message, request.read_principal())
        elif session is None:
            raise make_rejection(400, "Bad Request: Missing session ID")
        elif request.method == "DELETE":
            await self._end_session(session)
            await request.respond(200)
            return
        else:
            request.check_accept("text/event-stream")
            if not last_event:
                self._admission.check_ending()
        await self._serve_in_session(session, request, message, last_event)

    async def _serve_in_session(
        self, session: HttpSession, request: HttpRequest, message: Message | None, last_event: str | None
    ) -> None:
        self._idle.pop(session, None)
        session.requests += 1
        try:
            if message is not None and "id" in message and "method" in message:
                await session.serve_request(request, message)
            elif message is not None:
                session.client.receive(message)
                await request.respond(202, headers=session.headers)
            elif last_event:
                await session.resume_stream(request, last_event)
            else:
                await session.serve_standalone(request)
        finally:
            session.requests -= 1
            if not session.client.session.version:
                # The initialization has failed, so no other request can use the session.
                await self._end_session(session)
            elif not session.requests and not session.is_ended:
                self._idle[session] = asyncio.get_running_loop().time()
                self._schedule_check()

    async def end_all(self) -> None:
        """End all sessions, with their streams after the pending messages."""
        if self._timer is not None:
            self._timer.cancel()
        for session in list(self._sessions.values()):
            await self._end_session(session)

    def end_sessions_of(self, principals: frozenset[str]) -> None:
        """End the sessions of these principals, with their calls."""
        for session in list(self._sessions.values()):
            if session.principal in principals:
                self._end_soon(session)

    def _open_session(self, message: Message, principal: str | None) -> HttpSession:
        """Open a session for an initialization. Raises HttpRejection, also for any other message."""
        if message.get("method") != "initialize" or "id" not in message:
            if "id" in message and has_envelope(message.get("params") or {}):
                # This is a stateless request, which lacks only the header of its version.
                error = make_error(message["id"], make_mismatch(VERSION_HEADER, VERSION_PART))
                raise HttpRejection(400, dump_message(error))
            raise make_rejection(400, "Bad Request: Missing session ID")
        options = self._options
        if len(self._sessions) >= options.sessions:
            victim = next((session for session in self._idle if not session.has_open_requests), None)
            if victim is None:
                raise make_rejection(503, "Too many open sessions", code=INTERNAL_ERROR)
            self._end_soon(victim)
        log: EventLog[SessionStream] | None = None
        retry = 0.0
        resuming = options.resuming
        if resuming is not None:
            events: MemoryEvents | StoredEvents = self._memory
            if resuming.store is not None and type(resuming.store) is not MemoryStore:
                events = StoredEvents(FaultTolerantStore(resuming.store), self._admission.tasks, ttl=options.idle)
            log = EventLog(events, limit=resuming.events)
            retry = resuming.retry
        session_id = f"{options.id_prefix}{token_hex(16)}"
        session = HttpSession(session_id, self._endpoint, self._admission, principal, log=log, retry=retry)
        self._sessions[session_id] = session
        return session

    def _end_soon(self, session: HttpSession) -> None:
        self._forget(session)
        self._admission.tasks.spawn(session.end)

    async def _end_session(self, session: HttpSession) -> None:
        self._forget(session)
        await session.end()

    def _forget(self, session: HttpSession) -> None:
        self._sessions.pop(session.id, None)
        self._idle.pop(session, None)

    def _schedule_check(self) -> None:
        if self._timer is None and self._idle:
            due = next(iter(self._idle.values())) + self._options.idle
            self._timer = asyncio.get_running_loop().call_at(due, self._end_idle_sessions)

    def _end_idle_sessions(self) -> None:
        self._timer = None
        latest = asyncio.get_running_loop().time() - self._options.idle
        for session, idle_since in list(self._idle.items()):
            if idle_since <= latest:
                self._end_soon(session)
        self._schedule_check()
