"""The stdio transport: a reader and a writer of our own for the SDK's `Server.run` (docs/architecture.md, decision 6).

The SDK's own transport uses a thread for every line, loses the calls in flight at the end of input, and does not
respond to malformed lines.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import CONNECTION_CLOSED

from mcp_bridge.runtime.line_splitter import LineSplitter
from mcp_bridge.runtime.stdio_descriptors import Descriptor, StdioPipes
from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.jsonrpc_lines import dump_message, format_error, format_invalid, parse_message
from mcp_bridge.transports.shutdown import (
    CLOSE_TIMEOUT,
    DRAIN_TIMEOUT,
    SHUTDOWN_MESSAGE,
    RequestCounter,
    ShutdownSignals,
    drain_calls,
    is_part_of_call,
)

logger = logging.getLogger("mcp_bridge.stdio")

MAX_BUFFERED_OUTPUT = 1024 * 1024
"""Bytes that are buffered for a slow reader before senders have to wait."""


class StdioStream:
    """The base of both directions: a context manager that closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing: the caller closes the descriptors."""


class StdioWriter(StdioStream):
    """The write side. Messages are encoded in the sender's task, so the writer cannot fail; writes are coalesced."""

    def __init__(self, sink: Descriptor, ledger: RequestCounter) -> None:
        self._sink = sink
        self._ledger = ledger
        self._waiting = bytearray()
        self._filled = anyio.Event()
        self._flushed = anyio.Event()
        self._writing = self._gone = False
        self._open: set[str | int] = set()

    def register_request(self, number: str | int) -> bool:
        """Register a request; return False if its id is in use."""
        if number in self._open:
            return False
        self._open.add(number)
        self._ledger.add_request()
        return True

    async def unregister_request(self, number: str | int | None) -> None:
        """Release the id of a request that is answered, or will not be."""
        if number in self._open:
            self._open.remove(number)
            await self._ledger.remove_request()

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message; wait only while too much is buffered."""
        message = item.message
        self.put_bytes(dump_message(message))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            await self.unregister_request(message.id)
        while len(self._waiting) > MAX_BUFFERED_OUTPUT and not self._gone:
            await self._flushed.wait()

    def put_bytes(self, data: bytes) -> None:
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

    async def wait_until_closed(self) -> None:
        """Wait until the client has closed its end, as far as that can be detected without writing."""
        if not await self._sink.wait_until_broken():
            await anyio.sleep_forever()

    async def flush(self, patience: float) -> None:
        with anyio.move_on_after(patience):
            while self._waiting or self._writing:
                await self._flushed.wait()


class StdioReader(StdioStream):
    """The read side. After the end of input, the stream ends once the calls in flight are answered."""

    def __init__(
        self,
        source: Descriptor,
        outbox: StdioWriter,
        ledger: RequestCounter,
        endpoint: Endpoint,
        drain: float,
        ended: Callable[[], None],
    ) -> None:
        self._source = source
        self._outbox = outbox
        self._ledger = ledger
        self._endpoint = endpoint
        self._drain = drain
        self._on_end = ended
        self._lines = LineSplitter()
        self._ready: deque[bytes | None] = deque()
        self._ended = self._is_draining = False
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
                if (message := self._accept_line(self._ready.popleft())) is not None:
                    return message
            if self._ended:
                await self._finish_calls()
                raise anyio.EndOfStream
            await self._read_input()

    def stop(self) -> None:
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()

    async def drain(self) -> None:
        """Reject new requests, but not those that belong to calls in flight; stop once these are answered."""
        self._is_draining = True
        self._endpoint.close_subscriptions()
        await self._drain_calls()
        self.stop()

    async def _read_input(self) -> None:
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
            self._on_end()
            self._ready.extend(self._lines.finish())

    def _accept_line(self, line: bytes | None) -> SessionMessage | None:
        message = parse_message(line)
        if isinstance(message, bytes):
            self._outbox.put_bytes(message)
            return None
        if not isinstance(message, types.JSONRPCRequest):
            return SessionMessage(message)
        if self._is_draining and not is_part_of_call(message.method, message.params):
            self._outbox.put_bytes(format_error(message.id, CONNECTION_CLOSED, SHUTDOWN_MESSAGE))
            return None
        if not self._outbox.register_request(message.id):
            self._outbox.put_bytes(format_invalid(message.id, "a request with this id is in flight"))
            return None
        settled = partial(self._outbox.unregister_request, message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=settled))

    async def _finish_calls(self) -> None:
        self._endpoint.close_subscriptions()
        self._endpoint.reject_questions()  # no answer can arrive any more
        logger.info("input has ended")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_client)
            await self._drain_calls()
            tasks.cancel_scope.cancel()

    async def _watch_client(self) -> None:
        await self._outbox.wait_until_closed()
        self._ledger.shorten_waits()

    async def _drain_calls(self) -> None:
        if self._until is None:
            self._until = anyio.current_time() + self._drain
        left = max(0.0, self._until - anyio.current_time())
        await drain_calls(self._endpoint, self._ledger, self._drain, left)


async def serve(
    endpoint: Endpoint,
    pipes: StdioPipes,
    *,
    drain: float = DRAIN_TIMEOUT,
    signals: bool = True,
    ending: ShutdownSignals | None = None,
) -> None:
    """Serve one client over `pipes` until its input ends or a signal comes; then drain for `drain` seconds.

    `ending` handles the signals already; without it they are handled here, unless `signals` is false.
    """
    with ending or ShutdownSignals(signals=signals) as handled:
        await _serve_pipes(endpoint, pipes, drain, handled)


async def _serve_pipes(endpoint: Endpoint, pipes: StdioPipes, drain: float, ending: ShutdownSignals) -> None:
    ledger = RequestCounter()
    outbox = StdioWriter(Descriptor(pipes.sink), ledger)
    inbox = StdioReader(Descriptor(pipes.source), outbox, ledger, endpoint, drain, ending.begin_drain)
    kernel = endpoint.kernel

    async def write() -> None:
        await outbox.run()
        ledger.shorten_waits()  # the responses are not read any more, though input may still be open
        inbox.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await tasks.start(endpoint.run)  # sources are imported meanwhile: a signal interrupts that
        with ending.handle_while_serving(lambda: tasks.start_soon(inbox.drain), ledger.shorten_waits, drain):
            await kernel.run(inbox, outbox, kernel.create_initialization_options())
            await outbox.flush(CLOSE_TIMEOUT if ledger.hurried else drain)
        tasks.cancel_scope.cancel()
