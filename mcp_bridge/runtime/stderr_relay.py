"""A relay for stderr: writing to it never blocks on a client that does not read it.

Clients start a server with a pipe for its stderr, and not all of them read it. Once it is full, whoever logs or prints
would stand still: a tool, and with a line of the log the whole bridge.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterator

PATIENCE = 1.0
"""Seconds that a reader may take nothing before what is said is dropped, until it reads again."""
_CHUNK = 4_096
"""PIPE_BUF: after a descriptor polls as writable, this much never blocks."""
_READ = 65_536


@contextlib.contextmanager
def relayed(descriptor: int = 2) -> Iterator[None]:
    """Until the end, what is written to a descriptor goes to its pipe by way of a thread that can drop it.

    Terminals and files, which always take what they are given, stay as they are.
    """
    if not _may_block(descriptor):
        yield
        return
    relay = Relay(os.dup(descriptor))
    os.dup2(relay.sink, descriptor, inheritable=True)
    thread = threading.Thread(target=relay.run, name="mcp-bridge relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a tool may have put anything there
            sys.stderr.flush()
        os.dup2(relay.target, descriptor, inheritable=True)
        relay.stop()
        thread.join(2 * PATIENCE)
        relay.close(running=thread.is_alive())


class Relay:
    """Takes what is written to `sink`, at once, and gives it to `target`, as far as that takes it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._source, self.sink = os.pipe()
        self._stopped, self._stop = os.pipe()
        self._dropped = 0

    def run(self) -> None:
        """Relay until it is stopped and nothing is left; what tools leave behind may hold the other end open."""
        import select

        poll = select.poll()
        for number in (self._source, self._stopped):
            poll.register(number, select.POLLIN)
        while self._source in dict(poll.poll()) and (data := os.read(self._source, _READ)):
            self._pass_on(data)
        if self._dropped and self._takes(PATIENCE):
            self._write(self._report_dropped())

    def stop(self) -> None:
        """End `run` once it has relayed what is there."""
        os.close(self.sink)
        os.write(self._stop, b"x")

    def close(self, *, running: bool) -> None:
        """Close what is ours; what a thread that is stuck still uses stays open."""
        mine = (self._stop,) if running else (self._stop, self._stopped, self._source, self.target)
        for number in mine:
            os.close(number)

    def _pass_on(self, data: bytes) -> None:
        if self._dropped and self._takes(0):
            data = self._report_dropped() + data
        self._write(data)

    def _report_dropped(self) -> bytes:
        count, self._dropped = self._dropped, 0
        return f"\n[{count} bytes are missing here: nobody read them in time]\n".encode()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if not self._takes(0 if self._dropped else PATIENCE):
                self._dropped += len(view)
                return
            try:
                view = view[os.write(self.target, view[:_CHUNK]) :]
            except OSError:  # the reader has gone
                return

    def _takes(self, patience: float) -> bool:
        """Whether the target can be written to, or can never be again."""
        import select

        poll = select.poll()
        poll.register(self.target, select.POLLOUT)
        return bool(poll.poll(patience * 1000))


def _may_block(descriptor: int) -> bool:
    """Whether writing waits for somebody to read: a pipe or a socket, where that can be polled."""
    if sys.platform == "win32":
        return False
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
