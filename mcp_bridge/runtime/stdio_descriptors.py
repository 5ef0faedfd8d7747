"""The standard streams: reserved for the protocol, hidden from tools, read and written without blocking."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")

READ_SIZE = 65_536
"""The most bytes of one read."""
WRITE_SIZE = 4_096
"""PIPE_BUF: this much can be written without blocking once a descriptor polls as writable."""
BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class StdioPipes:
    """Private descriptors: the client writes to `source` and reads from `sink`."""

    source: int
    sink: int


@contextlib.contextmanager
def reserve_stdio(source: int = 0, sink: int = 1, elsewhere: int = 2) -> Iterator[StdioPipes]:
    """Reserve the standard streams for the protocol: inside the block, tools read nothing and print to stderr.

    Enter the block before any tool is imported, because tools may print at import too.
    """
    pipes = StdioPipes(os.dup(source), os.dup(sink))
    _replace_by_null(source)
    os.dup2(elsewhere, sink, inheritable=True)
    try:
        yield pipes
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a tool may have replaced it by anything
            sys.stdout.flush()
        os.dup2(pipes.source, source, inheritable=True)
        os.dup2(pipes.sink, sink, inheritable=True)
        os.close(pipes.source)
        os.close(pipes.sink)


@contextlib.contextmanager
def detach_stdin(source: int = 0) -> Iterator[None]:
    """Inside the block, tools read nothing from standard input, unless it is a terminal."""
    try:
        saved = None if os.isatty(source) else os.dup(source)
    except OSError:  # it was closed already
        saved = None
    if saved is None:
        yield
        return
    _replace_by_null(source)
    try:
        yield
    finally:
        os.dup2(saved, source, inheritable=True)
        os.close(saved)


def _replace_by_null(source: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY | BINARY)
    os.dup2(null, source, inheritable=True)
    os.close(null)


class Descriptor:
    """Reads and writes a descriptor after polling it, or in a thread where polling is impossible (files, Windows)."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._polls = sys.platform != "win32"

    async def read(self) -> bytes:
        """Return some bytes, or none at the end."""
        return await self._run_when_ready(anyio.wait_readable, partial(os.read, self.fd, READ_SIZE))

    async def write(self, data: bytes | bytearray) -> None:
        """Write all of `data`. Raises OSError when the reader has gone."""
        view = memoryview(data)
        while view:
            chunk = view[:WRITE_SIZE]
            if self._is_writable_now():  # waiting in the event loop costs as much as several calls
                written = os.write(self.fd, chunk)
            else:
                written = await self._run_when_ready(anyio.wait_writable, partial(os.write, self.fd, chunk))
            view = view[written:]

    def _is_writable_now(self) -> bool:
        if not self._polls:
            return False
        import select

        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(0))

    async def wait_until_broken(self) -> bool:
        """Wait until the reader has closed its end; False at once where that cannot be detected.

        The write end of a pipe is never readable, except when the other end is closed.
        """
        if not self._polls or os.isatty(self.fd):
            return False
        import select

        try:
            await anyio.wait_readable(self.fd)
            poll = select.poll()
            poll.register(self.fd, 0)
            return bool(poll.poll(0))  # a socket may only have data
        except OSError:
            return False

    async def _run_when_ready(self, ready: Callable[[int], Awaitable[None]], act: Callable[[], T]) -> T:
        while self._polls:
            try:
                await ready(self.fd)
            except OSError:  # epoll does not take files and some devices
                self._polls = False
                break
            with contextlib.suppress(BlockingIOError):
                return act()
        return await to_thread.run_sync(act, abandon_on_cancel=True)
