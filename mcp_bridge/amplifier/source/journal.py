"""Journal: lines appended to files, by a thread of its own, so that no disk ever holds up a call.

Several bridges may write one file, because every client over stdio starts one: each write is made under a lock of the
file, in whole lines, and who finds it too large turns it over. Where there are no such locks, on Windows, a file is
one bridge's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

logger = logging.getLogger("mcp_bridge.amplifier")

SIZE = 10 * 1024 * 1024
"""Bytes of a file that is not turned over yet."""
KEPT = 3
"""How many older files are kept: `NAME.1` is the last."""
WAITING = 16 * 1024 * 1024
"""Bytes that may wait for a disk that is too slow; what comes beyond that is counted, and left out."""
PATIENCE = 5.0
"""Seconds that the last lines have at the end."""
_FLAGS = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader is an error, and no wait
)


class Journal:
    """Files that lines are appended to. What cannot be written is left out; the log says so once, until it can be."""

    def __init__(self, size: int = SIZE, *, kept: int = KEPT, waiting: int = WAITING) -> None:
        self._size = size
        self._kept = kept
        self._most = waiting
        self._more = threading.Condition()
        self._waiting: list[tuple[Path, bytes]] = []
        self._bytes = self._lost = 0
        self._closing = self._failing = False
        self._thread: threading.Thread | None = None

    def write(self, path: Path, line: bytes) -> None:
        """Have a line, with its end, written to a file, soon; from any thread, without waiting."""
        with self._more:
            if self._bytes and self._bytes + len(line) > self._most:
                self._lost += 1
                return
            self._waiting.append((path, line))
            self._bytes += len(line)
            if self._thread is None:
                self._closing = False
                self._thread = threading.Thread(target=self._work, name="mcp-bridge journal", daemon=True)
                self._thread.start()
            self._more.notify()

    def close(self, patience: float = PATIENCE) -> None:
        """Have what waits written, and end the thread; give it up after so many seconds."""
        with self._more:
            thread, self._thread = self._thread, None
            self._closing = True
            self._more.notify()
        if thread is not None:
            thread.join(patience)
            if thread.is_alive():
                logger.error("the last lines were not written within %g seconds", patience)

    def _work(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._waiting or self._closing)
                batch, self._waiting, self._bytes = self._waiting, [], 0
                lost, self._lost = self._lost, 0
            if not batch:
                return
            if lost:
                logger.error("%d events were left out: they come faster than they can be written", lost)
            for path, lines in groupby(batch, key=itemgetter(0)):
                self._append(path, [line for _, line in lines])

    def _append(self, path: Path, lines: list[bytes]) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while lines:
                lines = self._some(path, lines)
        except OSError as error:
            if not self._failing:
                logger.error("%s cannot be written, and events are left out: %s", path, error.strerror or error)
            self._failing = True
        else:
            self._failing = False

    def _some(self, path: Path, lines: list[bytes]) -> list[bytes]:
        """Write as many lines as there is room for in the file; the others, for which it was turned over."""
        with _opened(path) as file:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                _write(file, b"".join(lines))
                return []
            size, count = about.st_size, 0
            while count < len(lines) and (not size or size + len(lines[count]) <= self._size):
                size += len(lines[count])
                count += 1
            try:
                _write(file, b"".join(lines[:count]))
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, about.st_size)  # half a line would spoil the next one
                raise
            if count < len(lines):
                self._turn_over(path)
        return lines[count:]

    def _turn_over(self, path: Path) -> None:
        names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, self._kept + 1))]
        for older, newer in reversed([*zip(names[1:], names, strict=False)]):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file at a path, locked; if somebody else has turned it over meanwhile, the new one."""
    while True:
        file = os.open(path, _FLAGS, 0o600)
        try:
            _lock(file)
            if _is_at(path, file):
                yield file
                return
        finally:
            os.close(file)  # and with it the lock


def _is_at(path: Path, file: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:
        return
    if stat.S_ISREG(os.fstat(file).st_mode):
        fcntl.flock(file, fcntl.LOCK_EX)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
