"""Polls descriptors on Linux and macOS. `windows_streams` has the same names."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys

assert sys.platform != "win32"

from mcp_bridge._runtime.platform import posix

POLLIN, POLLOUT, POLLERR, POLLNVAL = select.POLLIN, select.POLLOUT, select.POLLERR, select.POLLNVAL
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE, errno.EPERM})
"""The errors of systems, streams and sandboxes that cannot write without waiting."""


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
    """Writes to a standard stream without waiting.

    Linux 6.4 and later can write to a pipe without waiting. Other systems write pieces of PIPE_BUF bytes, which a pipe
    takes when it polls as writable. The stream itself stays blocking, because other processes may share it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._supports_nowait = posix.may_block(descriptor)
        self._poll: select.poll | None = None

    def fileno(self) -> int:
        """Return the number for polls."""
        return self._descriptor

    def write_now(self, data: bytes | bytearray | memoryview) -> int:
        """Write as much as the stream takes now, and return the number of bytes. Raises OSError without a reader."""
        if sys.platform == "linux" and self._supports_nowait:
            try:
                return os.pwritev(self._descriptor, [data], -1, os.RWF_NOWAIT)
            except BlockingIOError:
                return 0
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._supports_nowait = False
        count = 0
        # Another process may have filled the pipe since the poll.
        with memoryview(data) as view, contextlib.suppress(BlockingIOError):
            while count < len(view) and self._has_room():
                count += os.write(self._descriptor, view[count : count + select.PIPE_BUF])
        return count

    def _has_room(self) -> bool:
        if self._poll is None:
            self._poll = make_poll()
            self._poll.register(self._descriptor, POLLOUT)
        return bool(self._poll.poll(0))

    def flush(self) -> None:
        """Do nothing: `write_now` has written everything."""
