"""The standard streams: reserved for the protocol, hidden from tools, read and written without blocking."""

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

if TYPE_CHECKING:
    import select

T = TypeVar("T")

HANG_UP_INTERVAL = 0.1
"""Seconds between two checks whether the writer has gone, while input is not read."""
READ_SIZE = 65_536
"""The maximum number of bytes of one read."""
WRITE_SIZE = 4_096
"""PIPE_BUF: this much can be written without blocking once a descriptor polls as writable."""
WRITE_AT_ONCE = 65_536
"""The maximum number of bytes to write before other tasks run."""
BINARY = getattr(os, "O_BINARY", 0)


class StdioPipes(NamedTuple):
    """Private descriptors: the client writes to `source` and reads from `sink`."""

    source: int
    sink: int


@contextlib.contextmanager
def reserve_stdio(
    source: int = 0, sink: int = 1, elsewhere: int = 2, *, keeps_terminal: bool = False
) -> Iterator[StdioPipes]:
    """Reserve the standard streams for the protocol: inside the block, tools read nothing and print to stderr.

    With `keeps_terminal`, tools, and debuggers in them, can read from a terminal.

    Enter the block before any tool is imported, because tools may print at import too. Output appears line by line, as
    on stderr: Python would keep it until the end of the process.
    """
    pipes = StdioPipes(os.dup(source), os.dup(sink))
    if not (keeps_terminal and os.isatty(source)):
        _replace_by_null(source)
    os.dup2(elsewhere, sink, inheritable=True)
    stdout = sys.stdout
    was_by_line = isinstance(stdout, TextIOWrapper) and stdout.line_buffering
    _buffer_by_line(stdout, True)
    try:
        yield pipes
    finally:
        # A tool may have replaced the stream by anything.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        _buffer_by_line(stdout, was_by_line)
        os.dup2(pipes.source, source, inheritable=True)
        os.dup2(pipes.sink, sink, inheritable=True)
        os.close(pipes.source)
        os.close(pipes.sink)


def _buffer_by_line(stream: object, by_line: bool) -> None:
    # A tool may have closed the stream.
    with contextlib.suppress(OSError, ValueError):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=by_line)


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
        os.dup2(copy, source, inheritable=True)
        os.close(copy)


def _replace_by_null(source: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY | BINARY)
    os.dup2(null, source, inheritable=True)
    os.close(null)


class Descriptor:
    """Reads and writes a descriptor after polling it, or in a thread where polling is impossible (files, Windows)."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._polls = sys.platform != "win32"

    async def read(self, most: int = READ_SIZE) -> bytes:
        """Return some bytes, or none at the end."""
        return await self._run_when_ready(anyio.wait_readable, partial(os.read, self.fd, most))

    async def read_all(
        self, receive: Callable[[bytes], None], is_full: Callable[[], bool], drain: Callable[[], Awaitable[None]]
    ) -> None:
        """Pass everything to `receive` until the end. While `is_full`, wait for `drain` before reading on.

        After the writer has closed its end, the rest is read without waiting. It is no more than a pipe holds, and the
        end must be noticed even if nothing is drained any more. Raises OSError for an unreadable descriptor.
        """
        is_over = False
        while self._polls and is_on_asyncio() and not is_over:
            try:
                is_over = await self._watch(receive, is_full)
            except PermissionError:
                # epoll does not take files and some devices.
                self._polls = False
                break
            if not is_over:
                await self._wait_for_room(drain)
        while not is_over and (data := await self.read()):
            receive(data)
            await self._wait_for_room(drain)

    async def _wait_for_room(self, drain: Callable[[], Awaitable[None]]) -> None:
        while not (self._polls and self._has_hung_up()):
            with anyio.move_on_after(HANG_UP_INTERVAL):
                await drain()
                return

    def _has_hung_up(self) -> bool:
        """Whether the other end of a pipe was closed; data may be left in it."""
        poll = self._make_poll(0)
        return bool(poll.poll(0))

    async def _watch(self, receive: Callable[[bytes], None], is_full: Callable[[], bool]) -> bool:
        """Read in callbacks of the event loop, because they cost less than waiting. Return whether input has ended."""
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
        view = memoryview(data)
        while view:
            count = await self._run_when_ready(anyio.wait_writable, partial(os.write, self.fd, view[:WRITE_SIZE]))
            view = view[count:]

    def write_now(self, data: bytes | bytearray) -> int:
        """Write without waiting, and return the number of written bytes. Raises OSError when the reader has gone."""
        if not self._polls:
            return 0
        view, count = memoryview(data)[:WRITE_AT_ONCE], 0
        with view:
            while count < len(view) and self._poll.poll(0):
                count += os.write(self.fd, view[count : count + WRITE_SIZE])
        return count

    @cached_property
    def _poll(self) -> select.poll:
        import select

        return self._make_poll(select.POLLOUT)

    def _make_poll(self, events: int) -> select.poll:
        """Return a poll of the descriptor for these events, and for a hang-up, which is always reported."""
        import select

        poll = select.poll()
        poll.register(self.fd, events)
        return poll

    async def wait_until_broken(self) -> bool:
        """Wait until the reader has closed its end, and return True; False if that cannot be detected.

        The write end of a pipe is never readable, except when the other end is closed.
        """
        if not self._polls or os.isatty(self.fd):
            return False
        try:
            await anyio.wait_readable(self.fd)
        except OSError:
            return False
        # A readable socket may only have data.
        return self._has_hung_up()

    async def _run_when_ready(self, ready: Callable[[int], Awaitable[None]], act: Callable[[], T]) -> T:
        while self._polls:
            try:
                await ready(self.fd)
            except OSError:
                # epoll does not take files and some devices.
                self._polls = False
                break
            with contextlib.suppress(BlockingIOError):
                return act()
        return await to_thread.run_sync(act, abandon_on_cancel=True)
