"""Polls sockets and standard streams on Windows, where only sockets can be waited for: threads copy the streams."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading

POLLIN, POLLOUT, POLLERR, POLLNVAL = 1, 4, 8, 32
_SIZE = 65_536
_FLUSH_TIMEOUT = 1.0
"""Seconds in which the last output is written."""


class SocketPoll:
    """A poll object for sockets, by select. POLLERR waits for the end of a socket that sends nothing."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def register(self, descriptor: int, events: int) -> None:
        """Wait for these events of a socket."""
        self._events[descriptor] = events

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Return the sockets with their events, after at most `timeout` milliseconds."""
        readers = [descriptor for descriptor, events in self._events.items() if events & (POLLIN | POLLERR)]
        writers = [descriptor for descriptor, events in self._events.items() if events & POLLOUT]
        readable, writable, _ = select.select(readers, writers, (), None if timeout is None else timeout / 1000)
        results: dict[int, int] = {}
        for descriptor in readable:
            results[descriptor] = POLLIN if self._events[descriptor] & POLLIN else POLLERR
        for descriptor in writable:
            results[descriptor] = results.get(descriptor, 0) | POLLOUT
        return list(results.items())


def make_poll() -> SocketPoll:
    """Return an object that waits for events of sockets and of the streams below."""
    return SocketPoll()


def connect_sockets() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that send small pieces without delay. On Windows, they use TCP."""
    pair = socket.socketpair()
    for end in pair:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


class ThreadedReader:
    """Reads a standard stream in a thread. The socket with its number `fileno()` is readable when there is input."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._socket, self._source = connect_sockets()
        threading.Thread(target=self._copy, name="mcp-bridge input", daemon=True).start()

    def fileno(self) -> int:
        """Return the number for polls."""
        return self._socket.fileno()

    def read_some(self, size: int) -> bytes:
        """Return some bytes, or none at the end."""
        return self._socket.recv(size)

    def _copy(self) -> None:
        with self._source, contextlib.suppress(OSError):
            while data := os.read(self._descriptor, _SIZE):
                self._source.sendall(data)


class ThreadedWriter:
    """Writes to a standard stream in a thread. Its socket is writable when there is room, and ends with the stream."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._socket, self._sink = connect_sockets()
        self._socket.setblocking(False)
        self._thread = threading.Thread(target=self._copy, name="mcp-bridge output", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Return the number for polls."""
        return self._socket.fileno()

    def write_now(self, data: bytes | bytearray | memoryview) -> int:
        """Write as much as the stream takes now, and return the number of bytes. Raises OSError without a reader."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def flush(self) -> None:
        """Wait until everything is written, but no longer than a second. Nothing can be written afterwards."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._thread.join(_FLUSH_TIMEOUT)

    def _copy(self) -> None:
        with self._sink, contextlib.suppress(OSError):
            while data := self._sink.recv(_SIZE):
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]


StreamReader, StreamWriter = ThreadedReader, ThreadedWriter
