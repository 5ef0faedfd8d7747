"""Stores the messages of one handshake-era session, so that broken streams can be resumed (MCP, basic/transports)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from mcp_bridge.contracts.store import Store
from mcp_bridge.transports.shutdown import RequestCounter

DELETE_TIMEOUT = 5.0
"""Seconds that the deletion of a session's messages may take."""


@dataclass(slots=True, eq=False)
class ResumableStream:
    """One SSE stream: the numbers of its stored messages in order, and its reader since it was resumed.

    `owed` is whether a client waits for the rest of it, or was asked to come back for it.
    """

    name: str
    number: int
    numbers: list[int] = field(default_factory=list)
    is_answered: bool = False
    is_owed: bool = False
    reader: object = None
    _news: anyio.Event | None = None

    def set_reader(self, reader: object) -> None:
        self.reader = reader
        self.notify_reader()

    def notify_reader(self) -> None:
        if self._news is not None:
            self._news.set()

    async def wait_for_change(self) -> None:
        self._news = anyio.Event()
        await self._news.wait()


class SessionEventStore(EventStore):
    """The SDK's event store for one session, over a `Store`: at most `most` messages, each for `ttl` seconds.

    Each session has its own, because the SDK names streams by the request ids that clients choose: a common store would
    replay the messages of one client to another. An event id contains session, stream and position, so it works as long
    as the stream is known, even after its own message was deleted. Any other id replays nothing.

    The SDK can continue a resumed stream itself, but loses messages that arrive while it resumes, and does not end the
    stream after the response. So `replay_events_after` sends the stream to its end. Only the standalone stream is left
    to the SDK, which makes sure that there is one at most.
    """

    def __init__(self, store: Store, ledger: RequestCounter, *, most: int, ttl: float) -> None:
        self.resumed: Callable[[str], None] = lambda stream_name: None
        self._store = store
        self._ledger = ledger
        self._most = most
        self._ttl = ttl
        self._session = token_hex(8)
        self._last = 0
        self._named: dict[str, ResumableStream] = {}
        self._numbered: dict[str, ResumableStream] = {}
        self._kept: deque[ResumableStream] = deque()  # the stream of each stored message, oldest first
        self._written: tuple[str, str] | None = None
        self._unanswered = 0

    @property
    def has_open_requests(self) -> bool:
        return self._unanswered > 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store a message, or begin a stream if there is none. Return the event's id."""
        self._last += 1
        number = self._last
        stream = self._named.get(stream_id)
        if stream is None or (message is None and stream.is_answered):  # or a client uses an id again
            stream = ResumableStream(stream_id, number)
            self._named[stream_id] = self._numbered[str(number)] = stream
            self._unanswered += stream_id != GET_STREAM_KEY
        event_id = self._format_event_id(stream, number)
        if message is not None:
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            self._written = (event_id, text)
            await self._store_message(stream, number, message, text.encode())
        return event_id

    def pop_encoded(self, event_id: str | None) -> str | None:
        """Return the newest message as JSON, once, if this is its event."""
        if self._written is None or self._written[0] != event_id:
            return None
        text, self._written = self._written[1], None
        return text

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the stream's messages after this event, also future ones, until its response or until it is closed.

        Of the standalone stream, send only the stored messages, and return its name: the SDK continues it.
        """
        stream, number = self._find_stream(last_event_id)
        if stream is None:
            return None
        reader = object()
        stream.set_reader(reader)
        if stream.name == GET_STREAM_KEY:
            await self._send_stored(stream, reader, number, send_callback)
            return stream.name
        self._count_waiting_client(stream)
        self.resumed(stream.name)
        try:
            while True:
                number = await self._send_stored(stream, reader, number, send_callback)
                if stream.is_answered or stream.reader is not reader:
                    return None
                await stream.wait_for_change()
        finally:
            if stream.reader is reader:  # it has everything, or the client has disconnected
                stream.reader = None
                await self._discount_waiting_client(stream)

    def handle_closed_stream(self, stream_name: str) -> None:
        """Handle that the server has closed a stream whose client resumes it later."""
        stream = self._named.get(stream_name)
        if stream is not None and not stream.is_answered and stream_name != GET_STREAM_KEY:
            stream.set_reader(None)
            self._count_waiting_client(stream)

    async def end_streams(self) -> None:
        """End all streams and delete the stored messages, because the session has ended."""
        for stream in list(self._numbered.values()):
            stream.set_reader(None)
            await self._discount_waiting_client(stream)
        with anyio.move_on_after(DELETE_TIMEOUT):  # a slow store deletes the rest when it expires
            while self._kept:
                await self._delete_oldest()

    async def _store_message(self, stream: ResumableStream, number: int, message: JSONRPCMessage, data: bytes) -> None:
        await self._store.set(self._format_key(number), data, self._ttl)
        stream.numbers.append(number)
        self._kept.append(stream)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and stream.name != GET_STREAM_KEY:
            self._unanswered -= not stream.is_answered
            stream.is_answered = True
        stream.notify_reader()
        if len(self._kept) > self._most:
            for _ in range(max(1, self._most // 8)):
                await self._delete_oldest()

    async def _delete_oldest(self) -> None:
        stream = self._kept.popleft()
        number = stream.numbers.pop(0)
        if stream.is_answered and not stream.numbers:
            self._numbered.pop(str(stream.number), None)
            if self._named.get(stream.name) is stream:
                del self._named[stream.name]
            await self._discount_waiting_client(stream)
        await self._store.delete(self._format_key(number))

    async def _send_stored(self, stream: ResumableStream, reader: object, number: int, send: EventCallback) -> int:
        """Send the stored messages after a number while `reader` is the reader. Return the number of the last one."""
        while stream.reader is reader and (following := [kept for kept in stream.numbers if kept > number]):
            number = following[0]
            data = await self._store.get(self._format_key(number))
            if data is not None:
                message = jsonrpc_message_adapter.validate_json(data, by_name=False)
                await send(EventMessage(message, self._format_event_id(stream, number)))
        return number

    def _find_stream(self, event_id: str) -> tuple[ResumableStream | None, int]:
        session, _, place = event_id.partition("-")
        stream, _, number = place.partition("-")
        # int() rejects thousands of digits.
        known = session == self._session and number.isdecimal() and len(number) < 20
        return (self._numbered.get(stream), int(number)) if known else (None, 0)

    def _format_event_id(self, stream: ResumableStream, number: int) -> str:
        return f"{self._session}-{stream.number}-{number}"

    def _format_key(self, number: int) -> str:
        return f"events:{self._session}:{number}"

    def _count_waiting_client(self, stream: ResumableStream) -> None:
        if not stream.is_owed:
            stream.is_owed = True
            self._ledger.add_request()

    async def _discount_waiting_client(self, stream: ResumableStream) -> None:
        if stream.is_owed:
            stream.is_owed = False
            await self._ledger.remove_request()
