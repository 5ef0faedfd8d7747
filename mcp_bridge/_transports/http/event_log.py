"""The messages of one handshake session, for the resumption of broken streams (MCP 2025-11-25, basic/transports)."""

from __future__ import annotations

from collections import deque
from secrets import token_hex
from typing import Generic, Protocol, TypeVar

import anyio

from mcp_bridge._contracts.store import Store
from mcp_bridge._runtime.tasks import TaskOwner

DELETE_TIMEOUT = 5.0
"""The timeout in seconds for the deletion of a session's messages."""
MAX_BYTES = 32 * 1024 * 1024
EVENT_SIZE = 250
"""Bytes of memory per event besides its data."""


class LoggedStream(Protocol):
    """A stream with stored messages. `number` is the number of its first event; 0 before there is one."""

    number: int
    numbers: deque[int]
    is_answered: bool

    def forget(self) -> None:
        """Nothing is stored any more."""


StreamT = TypeVar("StreamT", bound=LoggedStream)


class EventLog(Generic[StreamT]):
    """At most `most` messages of one session, with their streams.

    An event id contains session, stream and position. It is valid until its stream is deleted, even after the deletion
    of its own message. Any other id resumes nothing.
    """

    def __init__(self, storage: MemoryEvents | StoredEvents, *, most: int) -> None:
        self._storage = storage
        self._most = most
        self._session = token_hex(8)
        self._last = 0
        self._streams: dict[int, StreamT] = {}
        # The stream of each stored message, oldest first.
        self._order: deque[StreamT] = deque()
        self._is_closed = False

    def begin(self, stream: StreamT) -> str:
        """Return the id of an event without a message. With this id, the client can resume the stream."""
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
        if len(self._order) > self._most:
            for _ in range(max(1, self._most // 8)):
                self._delete_oldest()
        return event_id

    def find(self, event_id: str) -> tuple[StreamT, int] | None:
        """Return the stream of an event and the position in it; None if the event is not of this session."""
        session, _, position = event_id.partition("-")
        numbers = position.split("-")
        # int() rejects thousands of digits.
        if session != self._session or len(position) > 40 or not all(map(str.isdecimal, numbers)) or len(numbers) != 2:
            return None
        stream = self._streams.get(int(numbers[0]))
        return (stream, int(numbers[1])) if stream is not None else None

    async def read_next(self, stream: StreamT, number: int) -> tuple[int, str, bytes | None] | None:
        """Return position, event id and message after a position; no message if it has expired, None at the end."""
        for later_number in stream.numbers:
            if later_number > number:
                data = await self._storage.read_event(self._format_key(later_number))
                return later_number, self._format_event_id(stream, later_number), data
        return None

    async def close(self) -> None:
        self._is_closed = True
        while self._order:
            self._delete_oldest()
        for stream in self._streams.values():
            stream.forget()
        self._streams.clear()
        # A slow store deletes the rest when it expires.
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
    """Events of all sessions in memory. Beyond `most` bytes, the oldest are deleted.

    Sessions delete their events, so these need no time to live; a `MemoryStore` would cost ten times as much per event.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._events: dict[str, bytes] = {}
        self._size = 0

    def write_event(self, key: str, data: bytes) -> None:
        self._events[key] = data
        self._size += len(data) + EVENT_SIZE
        while self._size > self._most:
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
    """Events in another store. A task writes them in their order, and they are kept here until then."""

    def __init__(self, store: Store, tasks: TaskOwner, *, ttl: float) -> None:
        self._store = store
        self._tasks = tasks
        self._ttl = ttl
        # The data by key; None for an event to delete.
        self._waiting: dict[str, bytes | None] = {}
        # The key that is being written.
        self._written = ""
        self._flushed: anyio.Event | None = None

    def write_event(self, key: str, data: bytes) -> None:
        self._write_soon(key, data)

    def delete_event(self, key: str) -> None:
        if self._waiting.get(key) is not None and key != self._written:
            # A slow store never has more to do than the log holds.
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
                self._written = key
                if data is None:
                    await self._store.delete(key)
                else:
                    await self._store.set(key, data, self._ttl)
                if self._waiting[key] is data:
                    del self._waiting[key]
        finally:
            self._flushed = None
            event.set()
