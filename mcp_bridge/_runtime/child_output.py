"""The output of a child process. It is read from a pipe of the child, and written to stderr at a limited rate.

A worker with the stderr of the bridge could truncate or read the log file behind it, even from a sandbox, because
`/proc/self/fd/2` opens the file again. It could also make a shared pipe nonblocking.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque

import anyio
from anyio.abc import ByteReceiveStream

from mcp_bridge._runtime.stderr_relay import READER_TIMEOUT, write_nowait
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._runtime.token_bucket import TokenBucket

STDERR = None if sys.platform == "win32" else subprocess.PIPE
"""The stderr of child processes, as a parameter of subprocess. On Windows they inherit stderr."""
RATE, BURST = 1024**2, 4 * 1024**2
"""Bytes per second in the long run and in one step. A process with more output has to wait."""
MAX_LINE = 4_096
"""PIPE_BUF: a write of this size is not mixed with others. A longer line is continued on the next one."""
_READ = 65_536
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*[mK]")
_PAUSE = 0.02
"""Seconds between two attempts to write to a full stderr."""


class OutputQueue:
    """Pieces of output in a queue. A piece is written to its end once a part of it has been written."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self._has_begun = False

    async def write_pieces(self, target: int) -> None:
        """Write all pieces. Pieces that cannot be written within a second are dropped."""
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
            while len(self.pieces) > self._has_begun:
                self.pieces.pop()


class LineLabeller:
    """Puts a label before each line, and escapes control characters, because a terminal could hide the label by them.

    `lines` are the pending lines.
    """

    def __init__(self, label: str) -> None:
        self._label = f"[{label}] ".encode()[: MAX_LINE // 4]
        self._partial_line = b""
        self.lines = OutputQueue()

    def feed(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._add_line(line)
        if len(self._partial_line) > MAX_LINE:
            self.finish()

    def finish(self) -> None:
        """Add the last line, also if it has no end."""
        if self._partial_line:
            self._add_line(self._partial_line)
            self._partial_line = b""

    def _add_line(self, line: bytes) -> None:
        text = _COLOURS.sub(b"", line.removesuffix(b"\r")).decode(errors="backslashreplace")
        line = escape_line(text).encode()
        size = MAX_LINE - len(self._label) - 1
        for start in range(0, max(len(line), 1), size):
            self.lines.pieces.append(self._label + line[start : start + size] + b"\n")


async def relay_output(output: ByteReceiveStream, target: int = 2, labeller: LineLabeller | None = None) -> None:
    """Write the output of a child process to `target`. Output that cannot be written within a second is dropped.

    With a `labeller`, this can be cancelled and begun again without losing a line.
    """
    budget = TokenBucket(rate=RATE, burst=BURST)
    pending = OutputQueue() if labeller is None else labeller.lines
    while True:
        await pending.write_pieces(target)
        await budget.wait_while_empty()
        try:
            data = await output.receive(_READ)
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
