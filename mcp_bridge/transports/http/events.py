"""The messages of one handshake-era session, kept so that a stream that broke can be resumed (basic/transports)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from mcp_bridge.contracts.store import Store
from mcp_bridge.transports.ends import Ledger

PATIENCE = 5.0
"""Seconds that the end of a session may take."""


@dataclass(slots=True, eq=False)
class Stream:
    """One SSE stream: the numbers of its messages that are kept, in order, and who reads it since it was resumed.

    `owed` is whether a client waits for the rest of it, or was told to come back for it.
    """

    name: str
    number: int
    kept: list[int] = field(default_factory=list)
    answered: bool = False
    owed: bool = False
    reader: object = None
    _news: anyio.Event | None = None

    def after(self, number: int) -> int | None:
        """The next number that is kept."""
        return next((kept for kept in self.kept if kept > number), None)

    def read_by(self, reader: object) -> None:
        """From now on only this one reads it."""
        self.reader = reader
        self.changed()

    def changed(self) -> None:
        """Wake whoever reads it."""
        if self._news is not None:
            self._news.set()

    async def change(self) -> None:
        """Wait until there is something new."""
        self._news = anyio.Event()
        await self._news.wait()


class Events(EventStore):
    """The SDK's event store, over a `Store`, for one session: at most `most` messages, each for `ttl` seconds.

    One for each session, because the SDK names streams by the ids that clients give their requests: a common one
    would replay the messages of one client to another. An event id names session, stream and place, so it serves as
    long as the stream is known, even when its own message is gone. Any other id replays nothing.

    The SDK can go on with a resumed stream itself, but loses what comes while it takes the stream up, and does not
    end it with the answer. So `replay_events_after` stays with it to the end. Only the standalone stream is left to
    the SDK, which sees to it that there is one of them.
    """

    def __init__(self, store: Store, ledger: Ledger, *, most: int, ttl: float) -> None:
        self.resumed: Callable[[str], None] = lambda stream_name: None
        self._store = store
        self._ledger = ledger
        self._most = most
        self._ttl = ttl
        self._session = token_hex(8)
        self._last = 0
        self._named: dict[str, Stream] = {}
        self._numbered: dict[str, Stream] = {}
        self._kept: deque[Stream] = deque()  # whose message each one is, the oldest first
        self._written: tuple[str, str] | None = None
        self._unanswered = 0

    @property
    def awaited(self) -> bool:
        """Whether a request that was begun is not answered."""
        return self._unanswered > 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message, or without one begin a stream; the event's id."""
        self._last += 1
        number = self._last
        stream = self._named.get(stream_id)
        if stream is None or (message is None and stream.answered):  # or a client that gives an id twice
            stream = Stream(stream_id, number)
            self._named[stream_id] = self._numbered[str(number)] = stream
            self._unanswered += stream_id != GET_STREAM_KEY
        event_id = self._event_id(stream, number)
        if message is not None:
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            self._written = (event_id, text)
            await self._keep(stream, number, message, text.encode())
        return event_id

    def written(self, event_id: str | None) -> str | None:
        """The newest message as JSON, once, where this is its event."""
        if self._written is None or self._written[0] != event_id:
            return None
        text, self._written = self._written[1], None
        return text

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what came on the stream after this event, then what comes until it is answered, or closed again.

        For the standalone stream only the first; its name is the answer, and the SDK goes on.
        """
        stream, number = self._find(last_event_id)
        if stream is None:
            return None
        reader = object()
        stream.read_by(reader)
        if stream.name == GET_STREAM_KEY:
            await self._send(stream, reader, number, send_callback)
            return stream.name
        self._owe(stream)
        self.resumed(stream.name)
        try:
            while True:
                number = await self._send(stream, reader, number, send_callback)
                if stream.answered or stream.reader is not reader:
                    return None
                await stream.change()
        finally:
            if stream.reader is reader:  # it has everything, or its client has left
                stream.reader = None
                await self._settle(stream)

    def closed(self, stream_name: str) -> None:
        """The server has closed a stream whose client is to come back for the rest."""
        stream = self._named.get(stream_name)
        if stream is not None and not stream.answered and stream_name != GET_STREAM_KEY:
            stream.read_by(None)
            self._owe(stream)

    async def end(self) -> None:
        """The session is over: end the streams that are read, forget what is kept."""
        for stream in list(self._numbered.values()):
            stream.read_by(None)
            await self._settle(stream)
        with anyio.move_on_after(PATIENCE):  # what a slow store has not forgotten by then, it will in time
            while self._kept:
                await self._forget_oldest()

    async def _keep(self, stream: Stream, number: int, message: JSONRPCMessage, data: bytes) -> None:
        await self._store.set(self._key(number), data, self._ttl)
        stream.kept.append(number)
        self._kept.append(stream)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and stream.name != GET_STREAM_KEY:
            self._unanswered -= not stream.answered
            stream.answered = True
        stream.changed()
        if len(self._kept) > self._most:
            for _ in range(max(1, self._most // 8)):
                await self._forget_oldest()

    async def _forget_oldest(self) -> None:
        stream = self._kept.popleft()
        number = stream.kept.pop(0)
        if stream.answered and not stream.kept:
            self._numbered.pop(str(stream.number), None)
            if self._named.get(stream.name) is stream:
                del self._named[stream.name]
            await self._settle(stream)
        await self._store.delete(self._key(number))

    async def _send(self, stream: Stream, reader: object, number: int, send: EventCallback) -> int:
        """Send what is kept after a number, for as long as nobody else reads; the number of the last message sent."""
        while stream.reader is reader and (following := stream.after(number)) is not None:
            number = following
            data = await self._store.get(self._key(number))
            if data is not None:
                message = jsonrpc_message_adapter.validate_json(data, by_name=False)
                await send(EventMessage(message, self._event_id(stream, number)))
        return number

    def _find(self, event_id: str) -> tuple[Stream | None, int]:
        session, _, place = event_id.partition("-")
        stream, _, number = place.partition("-")
        known = session == self._session and number.isdecimal() and len(number) < 20  # int refuses thousands of digits
        return (self._numbered.get(stream), int(number)) if known else (None, 0)

    def _event_id(self, stream: Stream, number: int) -> str:
        return f"{self._session}-{stream.number}-{number}"

    def _key(self, number: int) -> str:
        return f"events:{self._session}:{number}"

    def _owe(self, stream: Stream) -> None:
        if not stream.owed:
            stream.owed = True
            self._ledger.opened()

    async def _settle(self, stream: Stream) -> None:
        if stream.owed:
            stream.owed = False
            await self._ledger.settled()
