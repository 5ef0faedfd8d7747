"""The stdio transport: each line is a JSON-RPC message (MCP, transports, "stdio").

It serves one client over a pair of private descriptors (`StdioPipes`), because tools may print to the standard streams.
Shared servers (`local_socket`) use its StdioReader for each of their clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED
from mcp_bridge._protocol.peer.connection import RequestCounter
from mcp_bridge._protocol.peer.json_lines import format_error, parse_message
from mcp_bridge._protocol.peer.line_writer import MessageWriter
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.stdio_descriptors import Descriptor, StdioPipes
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import ClientConnection, Endpoint
from mcp_bridge._transports.shutdown import (
    CLOSE_TIMEOUT,
    DRAIN_TIMEOUT,
    SHUTDOWN_MESSAGE,
    ShutdownSignals,
    drain_calls,
    is_new_request,
)

logger = logging.getLogger("mcp_bridge.stdio")


class StdioReader:
    """Reads the messages of one client, and passes them to its connection.

    Attributes:
        is_draining: Whether new requests are rejected, because the server shuts down.
    """

    def __init__(
        self, source: Descriptor, writer: MessageWriter, client: ClientConnection, *, on_end: Callable[[], None]
    ) -> None:
        self._source = source
        self._writer = writer
        self._client = client
        self._on_end = on_end
        self._lines = LineSplitter()
        self._scope = anyio.CancelScope()
        self.is_draining = False

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> bool:
        """Handle messages until the end of input or `stop`. Return whether the input has ended."""
        with self._scope:
            try:
                # While the output is full, nothing is read, so a client that does not read cannot fill the memory.
                await self._source.read_all(self._accept_bytes, self._writer.is_full, self._writer.drain)
            except OSError as error:
                logger.warning("the input of a client cannot be read: %s", error)
            self._on_end()
            # The last line may lack its line feed.
            for line in self._lines.finish():
                self._accept_line(line)
            return True
        return False

    def _accept_bytes(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._accept_line(line)

    def _accept_line(self, line: bytes | None) -> None:
        message = parse_message(line)
        # An error response for something that is not a message comes as bytes.
        if isinstance(message, bytes):
            self._writer.put_bytes(message)
        elif self.is_draining and is_new_request(message):
            self._writer.put_bytes(format_error(message["id"], CONNECTION_CLOSED, SHUTDOWN_MESSAGE))
        else:
            self._client.receive(message)


async def serve(
    endpoint: Endpoint,
    pipes: StdioPipes,
    *,
    drain: float = DRAIN_TIMEOUT,
    handles_signals: bool = True,
    signals: ShutdownSignals | None = None,
) -> None:
    """Serve one client over `pipes` until its input ends or a signal arrives.

    The calls in flight then have `drain` seconds to end. `signals` are handlers the caller has installed. Without them,
    handlers are installed here, unless `handles_signals` is false.
    """
    with signals or ShutdownSignals(is_enabled=handles_signals) as active_signals:
        await _serve_pipes(endpoint, pipes, drain, active_signals)


async def _serve_pipes(endpoint: Endpoint, pipes: StdioPipes, drain: float, signals: ShutdownSignals) -> None:
    counter = RequestCounter()
    writer = MessageWriter(Descriptor(pipes.sink))
    deadline: float | None = None

    async def write() -> None:
        await writer.run()
        # The output is closed: the client no longer reads, although its end of the input may still be open.
        counter.shorten_waits()
        reader.stop()

    async def watch_client() -> None:
        # After the end of input, the client may also close the output. Then no call needs to finish.
        await writer.wait_until_closed()
        counter.shorten_waits()

    async def drain_requests() -> None:
        nonlocal deadline
        if deadline is None:
            deadline = anyio.current_time() + drain
        endpoint.close_subscriptions()
        await drain_calls(endpoint, counter, drain, max(0.0, deadline - anyio.current_time()))

    async def handle_signal() -> None:
        reader.is_draining = True
        await drain_requests()
        reader.stop()

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        # Sources are imported in the meantime, and a signal interrupts the import.
        await group.start(endpoint.run)
        async with own_tasks() as tasks:
            client = endpoint.connect(writer, tasks, counter, transport="stdio")
            reader = StdioReader(Descriptor(pipes.source), writer, client, on_end=signals.begin_drain)
            with signals.handle_while_serving(lambda: group.start_soon(handle_signal), counter.shorten_waits, drain):
                if await reader.run():
                    # The answers to open questions cannot arrive any more.
                    endpoint.calls.reject_questions()
                    logger.info("input has ended")
                    group.start_soon(watch_client)
                    await drain_requests()
                client.close()
                await writer.flush(CLOSE_TIMEOUT if counter.is_urgent else drain)
        group.cancel_scope.cancel()
