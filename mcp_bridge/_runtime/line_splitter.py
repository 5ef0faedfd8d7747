"""Splits bytes into lines, for messages over pipes and sockets. The relay of shared servers imports it at its start."""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE = 4 * 1024 * 1024
"""The longest line in bytes; longer ones are dropped."""
_FRAGMENT = 128


class LineSplitter:
    """Splits bytes into lines. None takes the place of a line beyond the limit.

    Attributes:
        skipped: The number of dropped bytes of the current line.
        fragments: The beginning and the end of the last line beyond the limit.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False
        self._tail = b""
        self.skipped = 0
        self.fragments = (b"", b"")

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        *lines, tail = data.split(b"\n")
        for line in lines:
            if self._rest or self._skipping or len(line) > self._limit:
                yield from self._complete_line(line)
            elif line.strip():
                yield line
        if tail:
            self._append_tail(tail)

    def finish(self) -> Iterator[bytes | None]:
        """Yield the last line, without a newline, when no more bytes come."""
        if self._rest or self._skipping:
            yield from self._complete_line(b"")

    def _complete_line(self, tail: bytes) -> Iterator[bytes | None]:
        if self._skipping:
            self._skipping, self.skipped = False, 0
            self.fragments = self.fragments[0], (self._tail + tail[-_FRAGMENT:])[-_FRAGMENT:]
            yield None
            return
        line = bytes(self._rest + tail) if self._rest else tail
        self._rest.clear()
        if len(line) > self._limit:
            self.fragments = line[:_FRAGMENT], line[-_FRAGMENT:]
            yield None
        elif line.strip():
            yield line

    def _append_tail(self, tail: bytes) -> None:
        if self._skipping:
            self.skipped += len(tail)
            self._tail = (self._tail + tail[-_FRAGMENT:])[-_FRAGMENT:]
            return
        self._rest += tail
        if len(self._rest) > self._limit:
            self.fragments, self._tail = (bytes(self._rest[:_FRAGMENT]), b""), bytes(self._rest[-_FRAGMENT:])
            self.skipped = len(self._rest)
            self._rest.clear()
            self._skipping = True
