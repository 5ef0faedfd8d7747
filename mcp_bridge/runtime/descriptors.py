"""The process's standard streams: reserved for the protocol, hidden from tools, read and written without blocking."""

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

READ = 65_536
WRITE = 4_096
"""PIPE_BUF: after a descriptor polls as writable, this much never blocks."""
BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Pipes:
    """Private descriptors: `source` is what the client sends, `sink` what it reads."""

    source: int
    sink: int


@contextlib.contextmanager
def private(source: int = 0, sink: int = 1, elsewhere: int = 2) -> Iterator[Pipes]:
    """Take the standard streams for the protocol; until the end tools read nothing and print to stderr.

    Begin this before any tool is imported: a `print` at import must not reach the client either.
    """
    pipes = Pipes(os.dup(source), os.dup(sink))
    _read_nothing(source)
    os.dup2(elsewhere, sink, inheritable=True)
    try:
        yield pipes
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a tool may have put anything there
            sys.stdout.flush()
        os.dup2(pipes.source, source, inheritable=True)
        os.dup2(pipes.sink, sink, inheritable=True)
        os.close(pipes.source)
        os.close(pipes.sink)


@contextlib.contextmanager
def unread(source: int = 0) -> Iterator[None]:
    """Until the end tools read nothing from standard input, where no person is: nobody would answer them."""
    try:
        kept = None if os.isatty(source) else os.dup(source)
    except OSError:  # it was closed before us
        kept = None
    if kept is None:
        yield
        return
    _read_nothing(source)
    try:
        yield
    finally:
        os.dup2(kept, source, inheritable=True)
        os.close(kept)


def _read_nothing(source: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY | BINARY)
    os.dup2(nothing, source, inheritable=True)
    os.close(nothing)


class Descriptor:
    """Waiting for a descriptor by polling, or by a thread where polling is impossible (files, Windows)."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._polls = sys.platform != "win32"

    async def read(self) -> bytes:
        """Some bytes, or none at the end."""
        return await self._when(anyio.wait_readable, partial(os.read, self.fd, READ))

    async def write(self, data: bytes | bytearray) -> None:
        """All of `data`. Raises OSError when the reader has gone."""
        view = memoryview(data)
        while view:
            written = await self._when(anyio.wait_writable, partial(os.write, self.fd, view[:WRITE]))
            view = view[written:]

    async def broken(self) -> bool:
        """Wait until nobody can read any more what is written; False at once where that cannot be seen.

        The end of a pipe that is written to is never readable, except when the other end is closed.
        """
        if not self._polls or os.isatty(self.fd):
            return False
        import select

        try:
            await anyio.wait_readable(self.fd)
            poll = select.poll()
            poll.register(self.fd, 0)
            return bool(poll.poll(0))  # a socket may only have something to say
        except OSError:
            return False

    async def _when(self, ready: Callable[[int], Awaitable[None]], act: Callable[[], T]) -> T:
        """`act` once the descriptor is ready for it."""
        while self._polls:
            try:
                await ready(self.fd)
            except OSError:  # epoll does not take files and some devices
                self._polls = False
                break
            with contextlib.suppress(BlockingIOError):
                return act()
        return await to_thread.run_sync(act, abandon_on_cancel=True)
