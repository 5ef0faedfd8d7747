"""Polls descriptors on Linux and macOS. `windows_streams` has the same names."""

from __future__ import annotations

import os
import select
import sys

assert sys.platform != "win32"

POLLIN, POLLOUT, POLLERR, POLLNVAL = select.POLLIN, select.POLLOUT, select.POLLERR, select.POLLNVAL


def make_poll() -> select.poll:
    """Return an object that waits for events of sockets and of the streams below."""
    return select.poll()


class StreamReader:
    """Reads a standard stream."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the number for polls."""
        return self._descriptor

    def read_some(self, size: int) -> bytes:
        """Return some bytes, or none at the end."""
        return os.read(self._descriptor, size)


class StreamWriter:
    """Writes to a standard stream."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the number for polls."""
        return self._descriptor

    def write_some(self, data: bytes | bytearray | memoryview) -> int:
        """Write some bytes, and return their number. Raises BlockingIOError or OSError."""
        return os.write(self._descriptor, data)

    def flush(self) -> None:
        """Do nothing: `write_some` has written everything."""
