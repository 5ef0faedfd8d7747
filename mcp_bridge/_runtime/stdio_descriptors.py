"""Reserves the standard streams for the protocol, and reads and writes descriptors without blocking the event loop.

Over stdio, a print of a tool would corrupt the protocol, and a tool that reads stdin would take messages. So
`reserve_stdio` moves the streams to private descriptors before any tool is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property, partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.platform import system

if TYPE_CHECKING:
    import socket

    from mcp_bridge._runtime.platform.streams import NonblockingWriter, Poll

T = TypeVar("T")

HANG_UP_INTERVAL = 0.1
"""Seconds between two checks whether the writer has closed its end, while no input is read."""
READ_SIZE = 65_536
"""The maximum number of bytes of one read."""
WRITE_AT_ONCE = 65_536
"""The maximum number of bytes to write before other tasks run."""


class StdioPipes(NamedTuple):
    """The private descriptors of the protocol: the client writes to `source` and reads from `sink`."""

    source: int
    sink: int


@contextlib.contextmanager
def reserve_stdio(
    source: int = 0, sink: int = 1, elsewhere: int = 2, *, keeps_terminal: bool = False
) -> Iterator[StdioPipes]:
    """Reserve the standard streams for the protocol: inside the block, tools read nothing and print to stderr.

    Enter the block before any tool is imported, because tools may print at import too. Output appears line by line, as
    on stderr, because Python would buffer it until the end of the process.

    Args:
        source: The descriptor of standard input.
        sink: The descriptor of standard output.
        elsewhere: The descriptor for the output of tools.
        keeps_terminal: Whether tools, and debuggers in them, can read from a terminal.
    """
    pipes = StdioPipes(os.dup(source), os.dup(sink))
    if not (keeps_terminal and os.isatty(source)):
        _replace_by_null(source)
    system.redirect_descriptor(elsewhere, sink)
    stdout = sys.stdout
    was_line_buffered = isinstance(stdout, TextIOWrapper) and stdout.line_buffering
    _set_line_buffering(stdout, True)
    try:
        yield pipes
    finally:
        # A tool may have replaced the stream by anything.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        _set_line_buffering(stdout, was_line_buffered)
        system.redirect_descriptor(pipes.source, source)
        system.redirect_descriptor(pipes.sink, sink)
        os.close(pipes.source)
        os.close(pipes.sink)


def _set_line_buffering(stream: object, line_buffering: bool) -> None:
    # A tool may have closed the stream.
    with contextlib.suppress(OSError, ValueError):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=line_buffering)


@contextlib.contextmanager
def detach_stdin(source: int = 0) -> Iterator[None]:
    """Inside the block, tools read nothing from standard input, unless it is a terminal."""
    try:
        copy = None if os.isatty(source) else os.dup(source)
    except OSError:
        # The descriptor is closed already.
        copy = None
    if copy is None:
        yield
        return
    _replace_by_null(source)
    try:
        yield
    finally:
        system.redirect_descriptor(copy, source)
        os.close(copy)


def _replace_by_null(source: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY | system.OPEN_BINARY)
    system.redirect_descriptor(null, source)
    os.close(null)


class Descriptor:
    """Reads and writes a descriptor after polling it, or in a thread where polling is impossible (files, Windows).

    `connected` is the socket, on systems where sockets are no descriptors (Windows).
    """

    def __init__(self, fd: int, connected: socket.socket | None = None) -> None:
        self.fd = fd
        self._socket = connected
        self._polls = system.POLLS_PIPES

    async def read(self, most: int = READ_SIZE) -> bytes:
        """Return some bytes, or none at the end."""
        if self._socket is not None:
            await anyio.wait_readable(self._socket)
            return self._socket.recv(most)
        return await self._run_when_ready(anyio.wait_readable, partial(os.read, self.fd, most))

    async def read_all(
        self, receive: Callable[[bytes], None], is_full: Callable[[], bool], drain: Callable[[], Awaitable[None]]
    ) -> None:
        """Pass all input to `receive` until its end. While `is_full`, wait for `drain` before reading on.

        After the writer has closed its end, the rest is read without waiting for `drain`. It is no more than a pipe
        holds, and the end must be noticed even if nothing is drained any more. Raises OSError for an unreadable
        descriptor.
        """
        has_ended = False
        while self._polls and is_on_asyncio() and not has_ended:
            try:
                has_ended = await self._watch(receive, is_full)
            except PermissionError:
                # epoll does not accept files and some devices.
                self._polls = False
                break
            if not has_ended:
                await self._wait_for_room(drain)
        # On trio, and for descriptors that cannot be polled, each read is awaited.
        while not has_ended and (data := await self.read()):
            receive(data)
            await self._wait_for_room(drain)

    async def _wait_for_room(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Wait for `drain`, or until the writer has closed its end."""
        while not (self._polls and self._has_hung_up()):
            with anyio.move_on_after(HANG_UP_INTERVAL):
                await drain()
                return

    def _has_hung_up(self) -> bool:
        """Whether the other end of a pipe was closed. Data may be left in the pipe."""
        poll = self._make_poll(0)
        return bool(poll.poll(0))

    async def _watch(self, receive: Callable[[bytes], None], is_full: Callable[[], bool]) -> bool:
        """Read until the input ends or `is_full`, and return whether the input has ended.

        It reads in callbacks of the event loop, which cost less than a task that waits for each read.
        """
        loop = asyncio.get_running_loop()
        end: asyncio.Future[bool] = loop.create_future()

        def read_some() -> None:
            try:
                data = os.read(self.fd, READ_SIZE)
                if data:
                    receive(data)
                if not end.done() and (not data or is_full()):
                    end.set_result(not data)
            except BlockingIOError:
                pass
            except Exception as error:
                if not end.done():
                    end.set_exception(error)

        loop.add_reader(self.fd, read_some)
        try:
            return await end
        finally:
            loop.remove_reader(self.fd)

    async def write(self, data: bytes | bytearray) -> None:
        """Write all of `data`. Raises OSError when the reader has gone."""
        if self._socket is not None:
            # A socket cannot be watched for reading and writing at once (anyio 4.16, `_asyncio_selector_thread`).
            await to_thread.run_sync(self._socket.sendall, data, abandon_on_cancel=True)
            return
        view = memoryview(data)
        while view:
            count = await self._run_when_ready(anyio.wait_writable, partial(self._write_some, view))
            view = view[count:]

    def _write_some(self, view: memoryview) -> int:
        """Write to a descriptor that is ready, or in a thread. Return the number of written bytes."""
        if self._polls:
            return self._writer.write_now(view[:WRITE_AT_ONCE])
        return os.write(self.fd, view[:WRITE_AT_ONCE])

    def write_now(self, data: bytes | bytearray) -> int:
        """Write without waiting, and return the number of written bytes. Raises OSError when the reader has gone."""
        if not self._polls:
            return 0
        with memoryview(data)[:WRITE_AT_ONCE] as view:
            return self._writer.write_now(view)

    @cached_property
    def _writer(self) -> NonblockingWriter:
        from mcp_bridge._runtime.platform.streams import streams

        return streams.StreamWriter(self.fd)

    def _make_poll(self, events: int) -> Poll:
        """Return a poll of the descriptor for these events. A hang-up is always reported."""
        from mcp_bridge._runtime.platform.streams import streams

        poll = streams.make_poll()
        poll.register(self.fd, events)
        return poll

    async def wait_until_broken(self) -> bool:
        """Wait until the reader has closed its end, and return True. Return False if this cannot be detected.

        The write end of a pipe is never readable, except when the other end is closed.
        """
        if not self._polls or os.isatty(self.fd):
            return False
        try:
            await anyio.wait_readable(self.fd)
        except OSError:
            return False
        # A socket is also readable when it has data.
        return self._has_hung_up()

    async def _run_when_ready(self, wait: Callable[[int], Awaitable[None]], act: Callable[[], T]) -> T:
        """Run `act` after `wait` has found the descriptor ready, or in a thread if it cannot be polled."""
        while self._polls:
            try:
                await wait(self.fd)
            except OSError:
                # epoll does not accept files and some devices.
                self._polls = False
                break
            # Another process may have used the descriptor in the meantime.
            with contextlib.suppress(BlockingIOError):
                return act()
        return await to_thread.run_sync(act, abandon_on_cancel=True)


def make_socket_descriptor(connected: socket.socket) -> Descriptor:
    """Return a descriptor for reading and writing a socket."""
    if system.POLLS_PIPES:
        return Descriptor(connected.fileno())
    return Descriptor(connected.fileno(), connected)
