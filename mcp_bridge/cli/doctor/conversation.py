"""A raw JSON-RPC conversation with a server process over stdio, which finds the cause of every failure.

A client library would hide the faults that are looked for here: prints on stdout, a crash at import, silence.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

INHERITED = (
    *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "TEMP"),
)
"""The variables that clients pass to servers; others must be in the client's settings."""
STDERR_TAIL = 2_000
"""Characters of stderr that are shown."""
MAX_LINE = 1 << 26
"""Characters of a line on stdout; a longer one is not a message."""
MAX_PENDING_LINES = 10_000
"""Lines of stdout that are buffered."""
MAX_STDERR = 4_000
"""Last lines of stderr that are kept, and characters of each."""
GRACE = 1.0
"""Seconds that a process has to exit by itself after a failure."""
METHOD_NOT_FOUND = -32601


FaultKind = Literal["not started", "silent", "ended", "polluted", "refused", "malformed"]


class ServerFault(Exception):
    """A problem and how to fix it; `stderr` is what the process had written there."""

    def __init__(self, problem: str, advice: str, *, kind: FaultKind = "malformed", stderr: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.kind = kind
        self.stderr = stderr


class Conversation:
    """A server process and the messages exchanged with it; `timeout` is in seconds for each response.

    Without an `environ` the process gets the few variables of this one that clients pass to servers. `first_response`
    is the time from the start of the process to its first response, in seconds.
    """

    def __init__(
        self, argv: Sequence[str], folder: Path, timeout: float, environ: Mapping[str, str] | None = None
    ) -> None:
        self._timeout = timeout
        self.first_response: float | None = None
        self._began = time.monotonic()
        self._ids = itertools.count(1)
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_PENDING_LINES)
        self._stderr_lines: deque[str] = deque(maxlen=MAX_STDERR)
        if environ is None:
            environ = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._process = _start_process(argv, folder, environ)
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process as a client does: close stdin, wait, then kill. After a failure the wait is short."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(self._timeout if kind is None else min(self._timeout, GRACE))
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()
        for reader, stream in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            reader.join(GRACE)
            if stream is not None and not reader.is_alive():  # closing would wait for the reader
                stream.close()

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result. Raises ServerFault."""
        number = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        deadline = time.monotonic() + self._timeout
        while True:
            message = self._receive_response(method, deadline)
            if message.get("id") != number or "method" in message:
                continue
            if self.first_response is None:
                self.first_response = time.monotonic() - self._began
            result, error = message.get("result"), message.get("error")
            if isinstance(error, dict):
                raise _to_fault(method, error)
            if isinstance(result, dict):
                return result
            advice = "A response needs an object as 'result', or an 'error' with code and message."
            problem = f"the response to {method} is neither a result nor an error: {json.dumps(message)[:200]}"
            raise ServerFault(problem, advice)

    @property
    def stderr(self) -> str:
        """What the process has written to stderr; complete after the block."""
        return "".join(self._stderr_lines)

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self, message: dict[str, Any]) -> None:
        # If the process has ended, the missing response says more than this error.
        with contextlib.suppress(OSError):
            self._stdin.write(json.dumps(message) + "\n")
            self._stdin.flush()

    def _receive_response(self, method: str, deadline: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            problem = f"no response to {method} within {self._timeout:g} seconds"
            advice = f"It may block during startup, or not be an MCP server over stdio. {self._describe_stderr()}"
            raise ServerFault(problem, advice, kind="silent", stderr=self.stderr) from None
        if line is None:
            problem = f"the process {self._describe_end()} before it responded to {method}"
            raise ServerFault(problem, self._describe_stderr(), kind="ended", stderr=self.stderr)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        advice = "Only MCP messages may be written to stdout: print to stderr instead."
        raise ServerFault(f"a line on stdout is not a message: {line.strip()[:200]!r}", advice, kind="polluted")

    def _describe_end(self) -> str:
        """Describe how the process ended, or that it is still running without its stdout."""
        try:
            return f"exited with code {self._process.wait(GRACE)}"
        except subprocess.TimeoutExpired:
            return "closed its stdout"

    def _describe_stderr(self) -> str:
        self._readers[1].join(0.2)
        stderr = "".join(self._stderr_lines).strip()[-STDERR_TAIL:]
        return f"Its stderr:\n{stderr}" if stderr else "It wrote nothing to stderr."

    def _read_stdout(self, stream: IO[str]) -> None:
        while line := stream.readline(MAX_LINE):
            if line.strip():
                self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self, stream: IO[str]) -> None:
        while line := stream.readline(MAX_STDERR):
            self._stderr_lines.append(line)


def _start_process(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environ,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # so that its children can be killed with it
        )
    except (OSError, ValueError) as error:  # ValueError for a NUL character
        advice = "Use the full path of the command: clients do not have the PATH of your shell."
        reason = getattr(error, "strerror", None) or error
        raise ServerFault(f"cannot start '{argv[0]}': {reason}", advice, kind="not started") from error


def _to_fault(method: str, error: dict[str, Any]) -> ServerFault:
    if error.get("code") == METHOD_NOT_FOUND:
        advice = "It does not support this protocol version."
        return ServerFault(f"the server does not know {method}", advice, kind="refused")
    problem = f"{method} failed: {error.get('message')} ({error.get('code')})"
    return ServerFault(problem, "See the server's own log.", kind="refused")
