"""Relays the stderr of a child process to the stderr of the bridge, with a label before each line, at a limited rate.

The child gets a pipe as its stderr. With the stderr of the bridge, it could truncate or read the log file behind it,
even from a sandbox, because `/proc/self/fd/2` opens the file again. It could also make a shared pipe nonblocking.
"""

from __future__ import annotations

import re
import subprocess
from collections import deque

import anyio
from anyio.abc import ByteReceiveStream

from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.stderr_relay import READER_TIMEOUT, write_nowait
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._runtime.token_bucket import TokenBucket

STDERR = subprocess.PIPE if system.POLLS_PIPES else None
"""The stderr of child processes, as a parameter of subprocess. On Windows they inherit stderr."""
RATE = 1024**2
"""The bytes per second that a process may print in the long run. With more output, it has to wait."""
BURST = 4 * 1024**2
"""The bytes that a process may print at once."""
MAX_LINE = 4_096
"""PIPE_BUF, the size up to which the system does not mix a write with others. Longer lines continue on the next one."""
_READ_SIZE = 65_536
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*[mK]")
_LAST_LINES = 8
"""The number of lines that are kept to explain the end of a process."""
_PAUSE = 0.02
"""Seconds between two attempts to write to a full stderr."""


class OutputQueue:
    """A queue of pieces of output, such as lines. It drops only whole pieces, so that no line lacks its end."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self._has_begun = False

    async def write_pieces(self, target: int) -> None:
        """Write all pieces. After a second, the remaining pieces are dropped."""
        with anyio.move_on_after(READER_TIMEOUT) as timeout:
            while self.pieces:
                count = write_nowait(target, self.pieces[0])
                if not count:
                    await anyio.sleep(_PAUSE)
                    continue
                self.pieces[0] = self.pieces[0][count:]
                self._has_begun = bool(self.pieces[0])
                if not self._has_begun:
                    self.pieces.popleft()
        if timeout.cancelled_caught:
            kept_pieces = 1 if self._has_begun else 0
            while len(self.pieces) > kept_pieces:
                self.pieces.pop()


class LineLabeller:
    """Puts a label before each line of output, and adds the result to `lines`.

    Control characters are escaped, because they could hide the label in a terminal. `last_lines` has the last lines of
    output without labels.
    """

    def __init__(self, label: str) -> None:
        self._label = f"[{label}] ".encode()[: MAX_LINE // 4]
        self._partial_line = b""
        self.lines = OutputQueue()
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    def feed(self, data: bytes) -> None:
        """Add bytes of output. An incomplete line at their end waits for its rest, up to MAX_LINE bytes."""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._add_line(line)
        if len(self._partial_line) > MAX_LINE:
            self.finish()

    def finish(self) -> None:
        """Add the incomplete last line, if there is one."""
        if self._partial_line:
            self._add_line(self._partial_line)
            self._partial_line = b""

    def _add_line(self, line: bytes) -> None:
        text = _COLOURS.sub(b"", line.removesuffix(b"\r")).decode(errors="backslashreplace")
        text = escape_line(text)
        self.last_lines.append(text[:MAX_LINE])
        line = text.encode()
        size = MAX_LINE - len(self._label) - 1
        for start in range(0, max(len(line), 1), size):
            self.lines.pieces.append(self._label + line[start : start + size] + b"\n")


async def relay_output(output: ByteReceiveStream, target: int = 2, labeller: LineLabeller | None = None) -> None:
    """Write the output of a child process to `target`. Output is dropped if writing takes more than a second.

    With a `labeller` for the pending lines, this can be cancelled and begun again without losing a line.
    """
    budget = TokenBucket(rate=RATE, burst=BURST)
    pending = OutputQueue() if labeller is None else labeller.lines
    while True:
        await pending.write_pieces(target)
        await budget.wait_while_empty()
        try:
            data = await output.receive(_READ_SIZE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError):
            # uvloop raises RuntimeError for a closed stream.
            if labeller is not None:
                labeller.finish()
            await pending.write_pieces(target)
            return
        budget.charge(len(data))
        if labeller is None:
            pending.pieces.append(data)
        else:
            labeller.feed(data)
