"""Splits bytes into lines, for messages over pipes and sockets.

The relay of shared servers imports this module at its start, so it imports little itself.
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE = 4 * 1024 * 1024
"""The maximum number of bytes of a line. Longer lines are dropped."""
_FRAGMENT_SIZE = 128
"""The number of bytes that are kept of the beginning and of the end of a dropped line."""


class LineSplitter:
    """Splits bytes into lines without empty ones. None takes the place of a line beyond the limit.

    Attributes:
        skipped: The number of dropped bytes of the current line.
        fragments: The beginning and the end of the last line beyond the limit, which may show the id of its message.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._partial_line = bytearray()
        self._is_skipping = False
        self._skipped_end = b""
        self.skipped = 0
        self.fragments = (b"", b"")

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Add bytes, and yield the completed lines."""
        *lines, tail = data.split(b"\n")
        for line in lines:
            if self._partial_line or self._is_skipping or len(line) > self._limit:
                yield from self._complete_line(line)
            elif line.strip():
                yield line
        if self._is_skipping:
            self.skipped += len(tail)
            self._skipped_end = (self._skipped_end + tail[-_FRAGMENT_SIZE:])[-_FRAGMENT_SIZE:]
            return
        self._partial_line += tail
        if len(self._partial_line) > self._limit:
            # The line is too long, so only its beginning and its end are kept.
            self.fragments = bytes(self._partial_line[:_FRAGMENT_SIZE]), b""
            self._skipped_end = bytes(self._partial_line[-_FRAGMENT_SIZE:])
            self.skipped = len(self._partial_line)
            self._partial_line.clear()
            self._is_skipping = True

    def finish(self) -> Iterator[bytes | None]:
        """Yield the last line, without a newline, when no more bytes come."""
        if self._partial_line or self._is_skipping:
            yield from self._complete_line(b"")

    def _complete_line(self, tail: bytes) -> Iterator[bytes | None]:
        """Yield the line that ends with these bytes, or None if it is too long."""
        if self._is_skipping:
            self._is_skipping, self.skipped = False, 0
            self.fragments = self.fragments[0], (self._skipped_end + tail[-_FRAGMENT_SIZE:])[-_FRAGMENT_SIZE:]
            yield None
            return
        line = tail
        if self._partial_line:
            line = bytes(self._partial_line + tail)
            self._partial_line.clear()
        if len(line) > self._limit:
            self.fragments = line[:_FRAGMENT_SIZE], line[-_FRAGMENT_SIZE:]
            yield None
        elif line.strip():
            yield line
