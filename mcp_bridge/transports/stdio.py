"""stdio: our own reader and writer under the SDK's unmodified `Server.run` (docs/architecture.md, decision 6).

The SDK's own transport hops to a thread for every line, loses the calls in flight at the end of input, and
does not answer malformed lines.
"""

from __future__ import annotations

import logging
from collections import deque
from types import TracebackType
from typing import Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.ends import Ledger, on_signals
from mcp_bridge.transports.frames import Lines, dump, parse
from mcp_bridge.transports.pipes import Descriptor, Pipes

logger = logging.getLogger("mcp_bridge.stdio")

DRAIN = 10.0
"""Seconds that calls in flight have after the end of input or a signal."""
FULL = 1024 * 1024
"""Bytes that may wait for a slow reader before senders wait too."""


class Stream:
    """What both directions share: they are context managers that close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing to close: the descriptors belong to whoever opened them."""


class Outbox(Stream):
    """The write side. Replies become bytes in the sender's task, so the writer cannot fail; writes are coalesced."""

    def __init__(self, sink: Descriptor, ledger: Ledger) -> None:
        self._sink = sink
        self._ledger = ledger
        self._waiting = bytearray()
        self._filled = anyio.Event()
        self._flushed = anyio.Event()
        self._writing = self._gone = False

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message; waits only while a slow reader has too much to read."""
        message = item.message
        self.put(dump(message))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            await self._ledger.settled()
        while len(self._waiting) > FULL and not self._gone:
            await self._flushed.wait()

    def put(self, data: bytes) -> None:
        """Queue bytes."""
        if not self._gone:
            self._waiting += data
            self._filled.set()

    async def run(self) -> None:
        """Write what is queued until cancelled, or until the reader has gone."""
        while not self._gone:
            await self._filled.wait()
            self._filled = anyio.Event()
            data, self._waiting = self._waiting, bytearray()
            self._writing = True
            try:
                await self._sink.write(data)
            except OSError as error:
                logger.info("the client does not read any more: %s", error)
                self._gone = True
                self._waiting.clear()
            self._writing = False
            self._flushed.set()
            self._flushed = anyio.Event()

    async def flush(self, patience: float) -> None:
        """Wait until everything queued is written."""
        with anyio.move_on_after(patience):
            while self._waiting or self._writing:
                await self._flushed.wait()


class Inbox(Stream):
    """The read side. At the end of input it lets calls in flight be answered before the kernel hears of the end."""

    def __init__(self, source: Descriptor, outbox: Outbox, ledger: Ledger, endpoint: Endpoint, drain: float) -> None:
        self._source = source
        self._outbox = outbox
        self._ledger = ledger
        self._endpoint = endpoint
        self._drain = drain
        self._lines = Lines()
        self._ready: deque[bytes | None] = deque()
        self._ended = False
        self._reading: anyio.CancelScope | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        """The next message. Raises EndOfStream once input has ended and the calls in flight are answered."""
        while True:
            while self._ready:
                if (message := self._accept(self._ready.popleft())) is not None:
                    return message
            if self._ended:
                await self._finish()
                raise anyio.EndOfStream
            await self._read()

    def stop(self) -> None:
        """Read no more, as if input had ended."""
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()

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
            self._ready.extend(self._lines.end())

    def _accept(self, line: bytes | None) -> SessionMessage | None:
        message = parse(line)
        if isinstance(message, bytes):
            self._outbox.put(message)
            return None
        if not isinstance(message, types.JSONRPCRequest):
            return SessionMessage(message)
        self._ledger.opened()
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=self._ledger.settled))

    async def _finish(self) -> None:
        self._endpoint.end_listeners()
        if not await self._ledger.idle(self._drain):
            logger.warning("calls that were not answered within %g seconds are cancelled", self._drain)


async def serve(endpoint: Endpoint, pipes: Pipes, *, drain: float = DRAIN, signals: bool = True) -> None:
    """Serve one client over `pipes` until it ends its input, or a signal comes; then drain for `drain` seconds."""
    ledger = Ledger()
    outbox = Outbox(Descriptor(pipes.sink), ledger)
    inbox = Inbox(Descriptor(pipes.source), outbox, ledger, endpoint, drain)
    kernel = endpoint.kernel

    async def write() -> None:
        await outbox.run()
        inbox.stop()  # nobody hears the answers any more, though input may still be open

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        if signals:  # before anything waits: a source that is imported now holds the loop
            await tasks.start(on_signals, inbox.stop, tasks.cancel_scope.cancel)
        await tasks.start(endpoint.run)
        await kernel.run(inbox, outbox, kernel.create_initialization_options())
        await outbox.flush(drain)
        tasks.cancel_scope.cancel()
