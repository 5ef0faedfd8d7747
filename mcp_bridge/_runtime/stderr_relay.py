"""Relays stderr, so that writing to it never blocks because of a client that does not read it.

Clients start a server with a pipe for its stderr, and not all of them read it. When the pipe is full, writing blocks. A
printing tool would wait forever, and so would the whole server when it logs a line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from mcp_bridge._runtime.platform import system

READER_TIMEOUT = 1.0
"""Seconds to wait for the client to read before output is dropped. When the client reads again, the relay continues."""
_WRITE_SIZE = 4_096
"""PIPE_BUF, the number of bytes that a pipe takes without blocking when it polls as writable."""
_READ_SIZE = 65_536


@contextlib.contextmanager
def relay_stderr(descriptor: int = 2) -> Iterator[None]:
    """Inside the block, a thread relays the output on a descriptor, and drops it if the pipe is full.

    Terminals and files need no relay, because writing to them does not block.
    """
    if not system.may_block(descriptor):
        yield
        return
    relay = StderrRelay(os.dup(descriptor))
    os.dup2(relay.sink, descriptor, inheritable=True)
    thread = threading.Thread(target=relay.run, name="mcp-bridge relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # A tool may have replaced the stream by anything.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os.dup2(relay.target, descriptor, inheritable=True)
        relay.stop()
        thread.join(2 * READER_TIMEOUT)
        relay.close(running=thread.is_alive())


class StderrRelay:
    """Passes the bytes from `sink` to `target` while writing to `target` does not block."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._source, self.sink = os.pipe()
        self._stopped, self._stop = os.pipe()
        self._dropped = 0

    def run(self) -> None:
        """Relay until `stop`, and until nothing is left to relay.

        It does not wait for the end of the input, because processes of tools may hold it open.
        """
        from mcp_bridge._runtime.platform.streams import streams

        poll = streams.make_poll()
        for number in (self._source, self._stopped):
            poll.register(number, streams.POLLIN)
        while self._source in dict(poll.poll()) and (data := os.read(self._source, _READ_SIZE)):
            if self._dropped and _can_write(self.target, 0):
                data = self._report_dropped() + data
            self._write(data)
        if self._dropped and _can_write(self.target, READER_TIMEOUT):
            self._write(self._report_dropped())

    def stop(self) -> None:
        """Let `run` end when it has relayed all output."""
        os.close(self.sink)
        os.write(self._stop, b"x")

    def close(self, *, running: bool) -> None:
        """Close the descriptors, except those in use by a blocked thread."""
        os.close(self._stop)
        if not running:
            for number in (self._stopped, self._source, self.target):
                os.close(number)

    def _report_dropped(self) -> bytes:
        count, self._dropped = self._dropped, 0
        return f"\n[{count} bytes are missing here: they were not read in time]\n".encode()

    def _write(self, data: bytes) -> None:
        """Write data, and drop the rest if the client does not read in time."""
        view = memoryview(data)
        while view:
            # After the first drop, the relay waits no more until the client reads again.
            if not _can_write(self.target, 0 if self._dropped else READER_TIMEOUT):
                self._dropped += len(view)
                return
            try:
                view = view[os.write(self.target, view[:_WRITE_SIZE]) :]
            except OSError:
                # The client has closed its end.
                return


def write_nowait(descriptor: int, data: bytes) -> int:
    """Write as much as possible without blocking, and return the number of bytes.

    If the reader has closed its end, all bytes count as written.
    """
    count = 0
    while count < len(data) and _can_write(descriptor, 0):
        try:
            count += os.write(descriptor, data[count : count + _WRITE_SIZE])
        except BlockingIOError:
            break
        except OSError:
            return len(data)
    return count


def _can_write(descriptor: int, timeout: float) -> bool:
    """Whether the descriptor has room, or the reader has closed its end, within `timeout` seconds."""
    from mcp_bridge._runtime.platform.streams import streams

    poll = streams.make_poll()
    poll.register(descriptor, streams.POLLOUT)
    return bool(poll.poll(timeout * 1000))
