"""The stdio transport: a reader and a writer of our own for the SDK's `Server.run` (docs/architecture.md, decision 6).

The SDK's own transport uses a thread for every line, loses the calls in flight at the end of input, and does not
respond to malformed lines.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from mcp_bridge.runtime.descriptors import Descriptor, Pipes
from mcp_bridge.runtime.line_splitter import Lines
from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.ends import CLOSING, DRAIN, ENDING, Ending, Ledger, goes_on, wind_down
from mcp_bridge.transports.frames import dump, error, parse

logger = logging.getLogger("mcp_bridge.stdio")

FULL = 1024 * 1024
"""Bytes that are buffered for a slow reader before senders have to wait."""


class Stream:
    """The base of both directions: a context manager that closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: the caller closes the descriptors."""


class Outbox(Stream):
    """The write side. Messages are encoded in the sender's task, so the writer cannot fail; writes are coalesced."""

    def __init__(self, sink: Descriptor, ledger: Ledger) -> None:
        self._sink = sink
        self._ledger = ledger
        self._waiting = bytearray()
        self._filled = anyio.Event()
        self._flushed = anyio.Event()
        self._writing = self._gone = False
        self._open: set[str | int] = set()

    def opened(self, number: str | int) -> bool:
        """Register a request; return False if its id is in use."""
        if number in self._open:
            return False
        self._open.add(number)
        self._ledger.opened()
        return True

    async def settled(self, number: str | int | None) -> None:
        """Release the id of a request that is answered, or will not be."""
        if number in self._open:
            self._open.remove(number)
            await self._ledger.settled()

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message; wait only while too much is buffered."""
        message = item.message
        self.put(dump(message))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            await self.settled(message.id)
        while len(self._waiting) > FULL and not self._gone:
            await self._flushed.wait()

    def put(self, data: bytes) -> None:
        """Queue bytes."""
        if not self._gone:
            self._waiting += data
            self._filled.set()

    async def run(self) -> None:
        """Write what is queued until cancelled or until the reader has gone."""
        while not self._gone:
            await self._filled.wait()
            self._filled = anyio.Event()
            data, self._waiting = self._waiting, bytearray()
            self._writing = True
            try:
                await self._sink.write(data)
            except OSError as error:
                logger.info("the client has stopped reading: %s", error)
                self._gone = True
                self._waiting.clear()
            self._writing = False
            self._flushed.set()
            self._flushed = anyio.Event()

    async def left(self) -> None:
        """Wait until the client has closed its end, as far as that can be detected without writing."""
        if not await self._sink.broken():
            await anyio.sleep_forever()

    async def flush(self, patience: float) -> None:
        """Wait until everything queued is written."""
        with anyio.move_on_after(patience):
            while self._waiting or self._writing:
                await self._flushed.wait()


class Inbox(Stream):
    """The read side. After the end of input, the stream ends once the calls in flight are answered."""

    def __init__(
        self,
        source: Descriptor,
        outbox: Outbox,
        ledger: Ledger,
        endpoint: Endpoint,
        drain: float,
        ended: Callable[[], None],
    ) -> None:
        self._source = source
        self._outbox = outbox
        self._ledger = ledger
        self._endpoint = endpoint
        self._drain = drain
        self._tell = ended
        self._lines = Lines()
        self._ready: deque[bytes | None] = deque()
        self._ended = self._refusing = False
        self._until: float | None = None
        self._reading: anyio.CancelScope | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        """Return the next message. Raises EndOfStream once input has ended and the calls in flight are answered."""
        while True:
            while self._ready:
                if (message := self._accept(self._ready.popleft())) is not None:
                    return message
            if self._ended:
                await self._finish()
                raise anyio.EndOfStream
            await self._read()

    def stop(self) -> None:
        """Stop reading, as if input had ended."""
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()

    async def drain(self) -> None:
        """Reject new requests, but not those that belong to calls in flight; stop once these are answered."""
        self._refusing = True
        self._endpoint.end_listeners()
        await self._wind_down()
        self.stop()

    async def _read(self) -> None:
        data = b""
        with anyio.CancelScope() as self._reading:
            try:
                data = await self._source.read()
            except OSError as error:
                logger.warning("standard input cannot be read: %s", error)
        self._reading = None
        if data:
            self._ready.extend(self._lines.feed(data))
        elif not self._ended:
            self._ended = True
            self._tell()
            self._ready.extend(self._lines.end())

    def _accept(self, line: bytes | None) -> SessionMessage | None:
        message = parse(line)
        if isinstance(message, bytes):
            self._outbox.put(message)
            return None
        if not isinstance(message, types.JSONRPCRequest):
            return SessionMessage(message)
        if self._refusing and not goes_on(message.method, message.params):
            self._outbox.put(error(message.id, CONNECTION_CLOSED, ENDING))
            return None
        if not self._outbox.opened(message.id):
            self._outbox.put(error(message.id, INVALID_REQUEST, "Invalid Request: a request with this id is in flight"))
            return None
        settled = partial(self._outbox.settled, message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=settled))

    async def _finish(self) -> None:
        self._endpoint.end_listeners()
        self._endpoint.end_questions()  # no answer can arrive any more
        logger.info("input has ended")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hurry_when_left)
            await self._wind_down()
            tasks.cancel_scope.cancel()

    async def _hurry_when_left(self) -> None:
        await self._outbox.left()
        self._ledger.hurry()

    async def _wind_down(self) -> None:
        if self._until is None:
            self._until = anyio.current_time() + self._drain
        left = max(0.0, self._until - anyio.current_time())
        await wind_down(self._endpoint, self._ledger, self._drain, left)


async def serve(
    endpoint: Endpoint, pipes: Pipes, *, drain: float = DRAIN, signals: bool = True, ending: Ending | None = None
) -> None:
    """Serve one client over `pipes` until its input ends or a signal comes; then drain for `drain` seconds.

    `ending` handles the signals already; without it they are handled here, unless `signals` is false.
    """
    with ending or Ending(signals=signals) as taken:
        await _serve(endpoint, pipes, drain, taken)


async def _serve(endpoint: Endpoint, pipes: Pipes, drain: float, ending: Ending) -> None:
    ledger = Ledger()
    outbox = Outbox(Descriptor(pipes.sink), ledger)
    inbox = Inbox(Descriptor(pipes.source), outbox, ledger, endpoint, drain, ending.drains)
    kernel = endpoint.kernel

    async def write() -> None:
        await outbox.run()
        ledger.hurry()  # the responses are not read any more, though input may still be open
        inbox.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await tasks.start(endpoint.run)  # sources are imported meanwhile: a signal interrupts that
        with ending.heard(lambda: tasks.start_soon(inbox.drain), ledger.hurry, drain):
            await kernel.run(inbox, outbox, kernel.create_initialization_options())
            await outbox.flush(CLOSING if ledger.hurried else drain)
        tasks.cancel_scope.cancel()
