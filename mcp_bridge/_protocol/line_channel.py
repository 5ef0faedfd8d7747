"""Exchanges lines of JSON, without JSON-RPC, with worker processes and with validators of modules.

The bridge reads with `JsonLines` to limit the size of lines. Workers use `BlockingLineChannel`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from mcp_bridge._json_schema.size_limits import MAX_VALUES, has_too_many_values
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.stdio_descriptors import READ_SIZE

NO_LIMIT = 1 << 62
"""The `max_line` of a side that trusts the other one."""


class InvalidLine(ValueError):
    """A line is not JSON in UTF-8. The reader should give up the channel, because later lines cannot be trusted."""


class OversizedLine:
    """Takes the place of a line that is too long or has too many values. `problem` is the reason."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


class JsonLines:
    """Reads bytes as lines of JSON. It keeps at most one incomplete line of `max_line` bytes.

    Lines with the bytes `unbounded` at their start may have any number of values.
    """

    def __init__(self, max_line: int, *, unbounded: bytes | None = None) -> None:
        self._splitter = LineSplitter(max_line)
        self._max_line = max_line
        self._unbounded = unbounded

    def feed(self, data: bytes) -> Iterator[tuple[Any, int]]:
        """Yield the value of each line, or an OversizedLine, with the length of the line. Raises InvalidLine."""
        for line in self._splitter.feed(data):
            if line is None:
                yield OversizedLine(f"a line has more than {self._max_line} bytes"), 0
                continue
            is_unbounded = self._unbounded is not None and line.startswith(self._unbounded)
            if self._max_line != NO_LIMIT and not is_unbounded and has_too_many_values(line):
                yield OversizedLine(f"a line has more than {MAX_VALUES} values"), 0
                continue
            try:
                value = load_json(line)
            except ValueError as error:
                raise InvalidLine(str(error)) from error
            yield value, len(line)


class BlockingLineChannel:
    """Lines of JSON over two descriptors, for threads. One thread receives, and any may send."""

    def __init__(self, source: int, sink: int, max_line: int = NO_LIMIT) -> None:
        self._source = source
        self._sink = sink
        self._lines = JsonLines(max_line)
        self._values: deque[Any] = deque()
        self._lock = threading.Lock()

    def receive(self) -> Any:
        """Wait for a value and return it; None at the end. Raises InvalidLine, also for a line that is too long."""
        while not self._values:
            try:
                data = os.read(self._source, READ_SIZE)
            except OSError:
                # Reading fails after another thread has closed the descriptor, which is an end as well.
                data = b""
            if not data:
                return None
            self._values.extend(value for value, _ in self._lines.feed(data))
        value = self._values.popleft()
        if isinstance(value, OversizedLine):
            raise InvalidLine(value.problem)
        return value

    def send(self, message: Any) -> None:
        """Send a value. Raises TypeError and ValueError if it cannot be written as JSON."""
        self.send_line(dump_json(message) + b"\n")

    def send_line(self, line: bytes) -> None:
        """Send a line. If the other side has closed the channel, the line is dropped."""
        view = memoryview(line)
        with self._lock:
            while view:
                try:
                    view = view[os.write(self._sink, view) :]
                except OSError:
                    # `receive` reports the end of the channel.
                    return
