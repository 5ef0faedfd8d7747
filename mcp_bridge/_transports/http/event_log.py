"""EventLog: the messages of one handshake session, so clients can resume broken streams.

The session is a sequence of events, which have numbers. An event id is `SESSION-STREAM-NUMBER`: a random key of the
session, the number of the first event of the stream, and the number of the event. A client that sends an event id gets
the later messages of that stream (MCP 2025-11-25, basic/transports, "Resumability and Redelivery").
"""

from __future__ import annotations

from collections import deque
from secrets import token_hex
from typing import Generic, Protocol, TypeVar

import anyio

from mcp_bridge._contracts.store import Store
from mcp_bridge._runtime.tasks import TaskOwner

DELETE_TIMEOUT = 5.0
"""Seconds that the end of a session waits for the deletion of its messages."""
MAX_BYTES = 32 * 1024 * 1024
"""The maximum number of bytes of the events of all sessions in memory."""
EVENT_SIZE = 250
"""The approximate number of bytes that an event takes in memory besides its data."""


class LoggedStream(Protocol):
    """A stream with stored messages.

    Attributes:
        number: The number of its first event, or 0 before there is one.
        numbers: The numbers of its stored messages.
        is_answered: Whether the stream has ended with its response.
    """

    number: int
    numbers: deque[int]
    is_answered: bool

    def forget(self) -> None:
        """Stop waiting for the client, because nothing of the stream is stored any more."""


StreamT = TypeVar("StreamT", bound=LoggedStream)


class EventLog(Generic[StreamT]):
    """The messages of one session, at most `limit`, with their streams.

    An event id is valid until its stream is deleted, even after its own message was deleted. With any other id, a
    client gets nothing.
    """

    def __init__(self, storage: MemoryEvents | StoredEvents, *, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        self._session = token_hex(8)
        # The number of the last event.
        self._last = 0
        self._streams: dict[int, StreamT] = {}
        # The stream of each stored message, oldest first.
        self._order: deque[StreamT] = deque()
        self._is_closed = False

    def begin(self, stream: StreamT) -> str:
        """Return the id of a new event without a message, with which the client can resume the stream."""
        self._last += 1
        if not stream.number and not self._is_closed:
            stream.number = self._last
            self._streams[self._last] = stream
        return self._format_event_id(stream, self._last)

    def append(self, stream: StreamT, data: bytes) -> str:
        """Store a message. Return the id of its event."""
        event_id = self.begin(stream)
        if self._is_closed:
            return ""
        self._storage.write_event(self._format_key(self._last), data)
        stream.numbers.append(self._last)
        self._order.append(stream)
        if len(self._order) > self._limit:
            # Several messages are deleted at once, so that most messages cause no deletion.
            for _ in range(max(1, self._limit // 8)):
                self._delete_oldest()
        return event_id

    def find(self, event_id: str) -> tuple[StreamT, int] | None:
        """Return the stream of an event and the number of the event, or None if the id is not of this session."""
        session, _, position = event_id.partition("-")
        stream_number, _, number = position.partition("-")
        # int() raises ValueError for thousands of digits.
        if session != self._session or len(position) > 40:
            return None
        if not stream_number.isdecimal() or not number.isdecimal():
            return None
        stream = self._streams.get(int(stream_number))
        return (stream, int(number)) if stream is not None else None

    async def read_next(self, stream: StreamT, number: int) -> tuple[int, str, bytes | None] | None:
        """Return the number, the event id and the data of the next message after a number, or None at the end.

        The data is None if the message has expired.
        """
        for later_number in stream.numbers:
            if later_number > number:
                data = await self._storage.read_event(self._format_key(later_number))
                return later_number, self._format_event_id(stream, later_number), data
        return None

    async def close(self) -> None:
        """Delete all messages and streams."""
        self._is_closed = True
        while self._order:
            self._delete_oldest()
        for stream in self._streams.values():
            stream.forget()
        self._streams.clear()
        # What a slow store does not delete in time expires there later.
        with anyio.move_on_after(DELETE_TIMEOUT):
            await self._storage.wait_until_written()

    def _delete_oldest(self) -> None:
        stream = self._order.popleft()
        self._storage.delete_event(self._format_key(stream.numbers.popleft()))
        if stream.is_answered and not stream.numbers:
            del self._streams[stream.number]
            stream.forget()

    def _format_event_id(self, stream: StreamT, number: int) -> str:
        return f"{self._session}-{stream.number}-{number}"

    def _format_key(self, number: int) -> str:
        return f"events:{self._session}:{number}"


class MemoryEvents:
    """The events of all sessions in memory. Beyond `limit` bytes, the oldest are deleted.

    Sessions delete their events, so these need no time to live, and this costs a tenth of a `MemoryStore` per event.
    """

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._events: dict[str, bytes] = {}
        self._size = 0

    def write_event(self, key: str, data: bytes) -> None:
        self._events[key] = data
        self._size += len(data) + EVENT_SIZE
        while self._size > self._limit:
            self.delete_event(next(iter(self._events)))

    def delete_event(self, key: str) -> None:
        data = self._events.pop(key, None)
        if data is not None:
            self._size -= len(data) + EVENT_SIZE

    async def read_event(self, key: str) -> bytes | None:
        return self._events.get(key)

    async def wait_until_written(self) -> None:
        """Do nothing: everything is written."""


class StoredEvents:
    """The events of a session in a store. A task writes them in their order, and they are kept here until then."""

    def __init__(self, store: Store, tasks: TaskOwner, *, ttl: float) -> None:
        self._store = store
        self._tasks = tasks
        self._ttl = ttl
        # The data by key, or None for an event that is to be deleted.
        self._waiting: dict[str, bytes | None] = {}
        # The key that was last passed to the store. The store may not have written it yet.
        self._last_written = ""
        self._flushed: anyio.Event | None = None

    def write_event(self, key: str, data: bytes) -> None:
        self._write_soon(key, data)

    def delete_event(self, key: str) -> None:
        if self._waiting.get(key) is not None and key != self._last_written:
            # The store never gets the event, so a slow one has no more to do than the log has messages.
            del self._waiting[key]
        else:
            self._write_soon(key, None)

    async def read_event(self, key: str) -> bytes | None:
        if key in self._waiting:
            return self._waiting[key]
        return await self._store.get(key)

    async def wait_until_written(self) -> None:
        if self._flushed is not None:
            await self._flushed.wait()

    def _write_soon(self, key: str, data: bytes | None) -> None:
        self._waiting[key] = data
        if self._flushed is None:
            self._flushed = anyio.Event()
            self._tasks.spawn(self._write, self._flushed)

    async def _write(self, event: anyio.Event) -> None:
        try:
            while self._waiting:
                key, data = next(iter(self._waiting.items()))
                self._last_written = key
                if data is None:
                    await self._store.delete(key)
                else:
                    await self._store.set(key, data, self._ttl)
                # In the meantime, the event may have been deleted.
                if self._waiting[key] is data:
                    del self._waiting[key]
        finally:
            self._flushed = None
            event.set()
