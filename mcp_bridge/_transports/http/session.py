"""HttpSession: one session of a handshake client, and its message streams (MCP 2025-11-25, basic/transports).

Each request has a stream (`SessionStream`), whose messages end with the response. One more stream, the standalone one,
has the messages that belong to no request. A stream is sent over a connection (`EventStream`). If the connection
breaks, the stream goes on: its messages are stored in the EventLog, until the client resumes the stream over a new
connection, with the id of the last event it has received.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message, RequestId, make_error
from mcp_bridge._protocol.peer.json_lines import dump_message, format_invalid
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, HANDSHAKE_VERSIONS
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._transports.http.admission import Admission
from mcp_bridge._transports.http.event_log import EventLog
from mcp_bridge._transports.http.event_stream import LARGE_RESPONSE, EventStream, format_event
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, make_client_key, make_rejection

REQUEST_CANCELLED = -32800
"""The error code in the response to a cancelled request. In this era, only a response ends the stream of a request."""
LENDING_DELAY = 10.0
"""Seconds after which a call whose stream has no connection lends its slot to other calls."""


class HttpSession:
    """One session of a handshake client.

    With a `log`, clients can resume broken streams, after `retry` seconds.

    Attributes:
        headers: The headers of each response, with the id of the session.
        requests: The number of HTTP requests in flight.
        principal: The owner of the session, or None.
        client: The connection of the client to the endpoint.
        counter: Counts the clients that wait for a response, or will return for it.
        log: Stores messages, or is None if streams cannot be resumed.
        unanswered: The streams of requests without a response.
    """

    def __init__(
        self,
        session_id: str,
        endpoint: Endpoint,
        admission: Admission,
        principal: str | None,
        *,
        log: EventLog[SessionStream] | None,
        retry: float,
    ) -> None:
        self.id = session_id
        self.headers = ((b"mcp-session-id", session_id.encode()),)
        self.requests = 0
        self.is_ended = False
        self.principal = principal
        self.counter = admission.counter
        self.log = log
        self.unanswered: set[SessionStream] = set()
        self._retry = f"retry: {int(retry * 1000)}\n".encode()
        self._standalone = SessionStream(self)
        client = make_client_key(principal, session_id)
        self.client = endpoint.connect(
            self._standalone, admission.tasks, principal=principal, client=client, transport="http"
        )

    @property
    def has_open_requests(self) -> bool:
        """Whether a call is in flight whose client may return for the result."""
        return self.log is not None and bool(self.unanswered)

    async def serve_request(self, request: HttpRequest, message: Message) -> None:
        """Serve a request and send its stream, until its response or until the client disconnects."""
        request_id: RequestId = message["id"]
        if self.client.get_request(request_id) is not None:
            raise HttpRejection(400, format_invalid(request_id, "a request with this id is in flight"), self.headers)
        events = EventStream(request, self.headers)
        stream = SessionStream(self, request_id)
        self.unanswered.add(stream)
        self.counter.add_request()
        try:
            stream.attach(events)
            self._prime(stream, events, message)
            self.client.receive(message, stream)
            if not events.is_ended:
                # Many calls end in the first step of their task, so that the response needs no event stream.
                await asyncio.sleep(0)
            await self._send_events(stream, events, events.begin_late)
        finally:
            self.counter.remove_request()

    async def serve_standalone(self, request: HttpRequest) -> None:
        """Send messages outside of requests until the client disconnects. Raises HttpRejection for a second stream."""
        stream = self._standalone
        if stream.events is not None:
            raise make_rejection(409, "Conflict: Only one SSE stream is allowed per session", self.headers)
        events = EventStream(request, self.headers)
        stream.attach(events)
        self._prime(stream, events)
        await self._send_events(stream, events, events.begin)

    async def resume_stream(self, request: HttpRequest, last_event: str) -> None:
        """Send the messages after an event, and then the new ones, on a new connection."""
        events = EventStream(request, self.headers)
        position = self.log.find(last_event) if self.log is not None else None
        if position is None or self.log is None:
            events.end()
            await events.begin()
            return
        stream, number = position
        self.counter.add_request()
        try:
            stream.attach(events, is_resumed=True)
            await events.begin()
            while stream.events is events:
                entry = await self.log.read_next(stream, number)
                if entry is None:
                    break
                number, event_id, line = entry
                if line is not None and stream.events is events:
                    events.put(format_event(line, event_id))
                    await events.drain()
            if stream.continue_on(events):
                await self._send_events(stream, events, events.begin)
        finally:
            self.counter.remove_request()

    async def end(self) -> None:
        """End the session: end its streams after their pending messages, cancel its requests, and delete its log."""
        if self.is_ended:
            return
        self.is_ended = True
        for stream in (self._standalone, *self.unanswered):
            stream.end()
        self.client.close()
        if self.log is not None:
            await self.log.close()

    def _prime(self, stream: SessionStream, events: EventStream, message: Message | None = None) -> None:
        """Queue an event without data, so the client can resume the stream before its first message.

        Only the newest version of this era has such events. `message` is the request of the stream. If it is the first
        one of the session, it names the version.
        """
        version: Any = self.client.session.version
        if not version and message is not None:
            version = (message.get("params") or {}).get("protocolVersion")
            if version not in HANDSHAKE_VERSIONS:
                version = HANDSHAKE
        if self.log is not None and version >= HANDSHAKE:
            stream.is_closable = True
            events.prime(b"id: %b\n%bdata: \n\n" % (self.log.begin(stream).encode(), self._retry))

    async def _send_events(
        self, stream: SessionStream, events: EventStream, begin: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await begin()
            await events.attend()
        finally:
            stream.detach(events)


class SessionStream:
    """The message stream of one request, or the standalone stream (`request_id` is None).

    A stream outlives its connections. Its messages go to the log, and to the connection if there is one. If a call has
    no connection for LENDING_DELAY seconds, it lends its slot to other calls until its stream is resumed.

    Attributes:
        number: The number of its first event, by which the log knows the stream.
        numbers: The numbers of its stored messages.
        is_closable: Whether the client can resume the stream, so the server may close its connection.
        events: The current connection, or None.
        is_answered: Whether the stream has ended with its response.
    """

    def __init__(self, session: HttpSession, request_id: RequestId | None = None) -> None:
        self.number = 0
        self.numbers: deque[int] = deque()
        self.is_closable = False
        self._session = session
        self._request_id = request_id
        self.events: EventStream | None = None
        # Whether the connection still gets messages from the log. New messages then only go to the log.
        self._is_replaying = False
        self._lend_timer: asyncio.TimerHandle | None = None
        self.is_answered = False
        # Whether the client was asked to come back, which the counter counts.
        self._is_client_expected = False

    def attach(self, events: EventStream, *, is_resumed: bool = False) -> None:
        """Send messages on this connection from now on, or after the replayed ones if the stream `is_resumed`.

        An earlier connection ends. It may be dead without the server knowing.
        """
        if self.events is not None:
            self.events.end()
        self.events = events
        self._is_replaying = is_resumed
        self.forget()
        if self._lend_timer is not None:
            self._lend_timer.cancel()
            self._lend_timer = None
            request = self._find_request()
            if request is not None:
                request.reclaim_slots()

    def continue_on(self, events: EventStream) -> bool:
        """Send new messages on this connection after the replayed ones. Return False if the stream has another one."""
        if self.events is not events:
            return False
        self._is_replaying = False
        if self.is_answered:
            events.end()
        return True

    def detach(self, events: EventStream) -> None:
        """Note the end of a connection."""
        if self.events is events:
            self.events = None
            self._lend_soon()

    def forget(self) -> None:
        """Stop waiting for a client that was asked to come back."""
        if self._is_client_expected:
            self._is_client_expected = False
            self._session.counter.remove_request()

    def end(self) -> None:
        if self.events is not None:
            self.events.end()

    def send(self, message: Message) -> None:
        """Send a message, unless the stream has ended with its response."""
        if not self.is_answered:
            self._send(message)

    def _send(self, message: Message) -> None:
        line = dump_message(message)
        if not line:
            return
        event_id = ""
        if self._session.log is not None:
            event_id = self._session.log.append(self, line)
        if self.events is None or self._is_replaying:
            return
        if self.is_answered and len(line) > LARGE_RESPONSE and self.events.respond_in_json(line):
            return
        self.events.put(format_event(line, event_id))

    async def drain(self) -> None:
        if self.events is not None:
            await self.events.drain()

    def finish(self, response: Message | None) -> None:
        self.is_answered = True
        self._session.unanswered.discard(self)
        if self._lend_timer is not None:
            self._lend_timer.cancel()
        if self._session.is_ended:
            return
        if response is None:
            response = make_error(self._request_id, RpcError(REQUEST_CANCELLED, "Request cancelled"))
        self._send(response)
        if self.events is not None and not self._is_replaying:
            self.events.end()

    async def close(self) -> None:
        """Close the connection if the client can resume the stream, and expect the client to come back."""
        if not self.is_closable or self.is_answered:
            return
        if self.events is not None:
            self.events.end()
            self.events = None
            self._lend_soon()
        if not self._is_client_expected:
            self._is_client_expected = True
            self._session.counter.add_request()

    def _lend_soon(self) -> None:
        if self._request_id is not None and not self.is_answered:
            self._lend_timer = asyncio.get_running_loop().call_later(LENDING_DELAY, self._lend_slots)

    def _lend_slots(self) -> None:
        request = self._find_request()
        if request is not None:
            request.lend_slots()
            # The call may only now get a slot, so lend it later.
            self._lend_soon()

    def _find_request(self) -> IncomingRequest | None:
        if self._request_id is None:
            return None
        return self._session.client.get_request(self._request_id)
