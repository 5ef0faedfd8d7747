"""Writes JSON-RPC messages as lines to a pipe. Senders never block; `drain` waits for a slow reader.

`send` appends to a buffer. On asyncio, a callback of the loop then writes the whole buffer without waiting, so messages
of one iteration of the loop cost one system call. The task `run` writes the rest when the pipe accepts it. Trio has no
such callback, so the task writes everything there.
"""

from __future__ import annotations

import asyncio
import logging
import math

import anyio

from mcp_bridge._protocol.peer.connection import Message, MessageStream
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.stdio_descriptors import Descriptor

logger = logging.getLogger("mcp_bridge.stdio")

MAX_BUFFERED_OUTPUT = 1024 * 1024
"""The number of buffered bytes from which `drain` waits, and from which a stdio server reads no more input."""


class MessageWriter(MessageStream):
    """A message stream over a descriptor. It encodes a message when the message is sent.

    If more than `limit` bytes wait, the reader counts as gone. `lost` is set when the reader has gone.
    """

    def __init__(self, sink: Descriptor, *, limit: float = math.inf) -> None:
        self._sink = sink
        self._limit = limit
        self.lost = anyio.Event()
        self._waiting = bytearray()
        self._filled = anyio.Event()
        self._flushed: anyio.Event | None = None
        self._is_writing = self._has_lost_reader = self._is_scheduled = False
        self._loop = asyncio.get_running_loop() if is_on_asyncio() else None

    def send(self, message: Message) -> None:
        self.put_bytes(dump_message(message))

    def finish(self, response: Message | None) -> None:
        if response is not None:
            self.put_bytes(dump_message(response))

    def is_full(self) -> bool:
        return len(self._waiting) > MAX_BUFFERED_OUTPUT and not self._has_lost_reader

    async def drain(self) -> None:
        while self.is_full():
            await self._wait_until_flushed()

    def put_bytes(self, data: bytes) -> None:
        """Queue the bytes of a message. After the reader has gone, they are dropped."""
        if self._has_lost_reader:
            return
        self._waiting += data
        if len(self._waiting) > self._limit:
            self._lose_reader("it does not read")
        if self._loop is None:
            self._filled.set()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._write_now)

    async def run(self) -> None:
        """Write the bytes that could not be written immediately, until cancelled or until the reader has gone."""
        while not self._has_lost_reader:
            await self._filled.wait()
            self._filled = anyio.Event()
            self._is_writing = True
            while self._waiting and not self._has_lost_reader:
                # Messages that are sent during the write go to a new buffer.
                data, self._waiting = self._waiting, bytearray()
                try:
                    await self._sink.write(data)
                except OSError as error:
                    self._lose_reader(error)
                self._notify()
            self._is_writing = False
            self._notify()

    def _write_now(self) -> None:
        """Write without waiting. This costs less than waking the task `run`."""
        self._is_scheduled = False
        # `run` is in the middle of a write, and will write the new bytes after it.
        if self._is_writing:
            return
        try:
            del self._waiting[: self._sink.write_now(self._waiting)]
        except OSError as error:
            self._lose_reader(error)
        if self._waiting or self._has_lost_reader:
            self._filled.set()
        if self._flushed is not None:
            self._notify()

    def _lose_reader(self, error: OSError | str) -> None:
        logger.info("the other side has stopped reading: %s", error)
        self._has_lost_reader = True
        # `write_now` may still use a view of the old buffer, which could then not be cleared.
        self._waiting = bytearray()
        self.lost.set()

    def _notify(self) -> None:
        if self._flushed is not None:
            self._flushed.set()
            self._flushed = None

    async def _wait_until_flushed(self) -> None:
        if self._flushed is None:
            self._flushed = anyio.Event()
        await self._flushed.wait()

    async def wait_until_closed(self) -> None:
        """Wait until the reader has closed its end, if that can be detected without writing."""
        if not await self._sink.wait_until_broken():
            await anyio.sleep_forever()

    async def flush(self, timeout: float) -> None:
        """Wait until everything is written, at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            while self._waiting or self._is_writing:
                await self._wait_until_flushed()
