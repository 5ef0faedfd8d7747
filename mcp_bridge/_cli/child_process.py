"""A child process that exchanges lines of JSON: its stdout as a queue, and the last lines of its stderr."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from mcp_bridge._runtime import process_group

GRACE = 1.0
"""Seconds that a process has to exit by itself, and its pipes to end."""
MAX_STDERR = 4_000
"""Last lines of stderr that are kept, and characters of each."""


class ChildProcess:
    """A process in a session of its own, so that its children can be killed with it. Raises OSError or ValueError.

    `lines` are those of stdout, with None at the end.
    """

    max_line: ClassVar[int] = 1 << 26
    """Characters of a line on stdout that are read at once."""
    max_pending: ClassVar[int] = 10_000
    """Lines of stdout that are buffered."""

    def __init__(self, argv: Sequence[str], folder: Path | str, environ: Mapping[str, str] | None = None) -> None:
        self.lines: queue.Queue[str | None] = queue.Queue(self.max_pending)
        self._stderr_lines: deque[str] = deque(maxlen=MAX_STDERR)
        self.process = subprocess.Popen(  # noqa: S603 - our own command or the user's, without a shell
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environ,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.stdin = self.process.stdin
        targets = ((self._read_stdout, self.process.stdout), (self._read_stderr, self.process.stderr))
        self._readers = [threading.Thread(target=target, args=(stream,), daemon=True) for target, stream in targets]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    @property
    def stderr(self) -> str:
        """What the process has written to stderr; complete after the block."""
        return "".join(self._stderr_lines)

    def send(self, message: dict[str, Any]) -> None:
        # If the process has ended, the missing response says more than this error.
        with contextlib.suppress(OSError):
            self.stdin.write(json.dumps(message) + "\n")
            self.stdin.flush()

    def wait_for_exit(self, timeout: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)

    def kill(self) -> None:
        """Kill the process and its children."""
        process_group.kill_group(self.process.pid)
        self.process.wait()

    def read_stderr_tail(self, length: int, timeout: float) -> str:
        """Return the last characters of stderr, once it has ended or after `timeout` seconds."""
        self._readers[1].join(timeout)
        return self.stderr.strip()[-length:]

    def close_streams(self) -> None:
        with contextlib.suppress(OSError):
            self.stdin.close()
        for reader, stream in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(GRACE)
            if stream is not None and not reader.is_alive():  # closing would wait for the reader
                stream.close()

    def _read_stdout(self, stream: IO[str]) -> None:
        while line := stream.readline(self.max_line):
            self.lines.put(line)
        self.lines.put(None)

    def _read_stderr(self, stream: IO[str]) -> None:
        while line := stream.readline(MAX_STDERR):
            self._stderr_lines.append(line)
