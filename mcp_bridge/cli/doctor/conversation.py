"""A raw conversation with a server process: one line out, one line in, and a cause for every silence."""

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

KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "TEMP")
"""The variables that clients hand on; others must be named in the client's own settings."""
TAIL = 2_000
"""Characters of stderr that are shown."""
LONGEST = 1 << 26
"""Characters of a line on stdout; what has more is no message."""
WAITING = 10_000
"""Lines of stdout that may wait to be read."""
SAID = 4_000
"""Lines of stderr that are kept, the last ones, and characters of each."""
GRACE = 1.0
"""Seconds that a process which did not do well has to end by itself."""
METHOD_NOT_FOUND = -32601


Kind = Literal["not started", "silent", "ended", "polluted", "refused", "malformed"]


class Fault(Exception):
    """What went wrong, and what to do; `said` is what the process had written to stderr."""

    def __init__(self, what: str, advice: str, *, kind: Kind = "malformed", said: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.kind = kind
        self.said = said


def bare_environment() -> dict[str, str]:
    """The variables of this process that clients hand on."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


class Conversation:
    """A server process and the lines exchanged with it; `patience` is in seconds for each answer.

    Without an `environ` the process has the few variables of this one that clients hand on. `first_answer` is how many
    seconds after its start the process first answered a request.
    """

    def __init__(
        self, argv: Sequence[str], folder: Path, patience: float, environ: Mapping[str, str] | None = None
    ) -> None:
        self._patience = patience
        self.first_answer: float | None = None
        self._began = time.monotonic()
        self._ids = itertools.count(1)
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING)
        self._errors: deque[str] = deque(maxlen=SAID)
        self._process = _process(argv, folder, bare_environment() if environ is None else dict(environ))
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._keep, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process: end of input first, as a client does; then by force, soon where it has failed already."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(self._patience if kind is None else min(self._patience, GRACE))
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()
        for reader, stream in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            reader.join(GRACE)
            if stream is not None and not reader.is_alive():  # closing under a reader would wait for it
                stream.close()

    def _kill(self) -> None:
        """What is left of the process and its children."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result. Raises Fault."""
        number = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        deadline = time.monotonic() + self._patience
        while True:
            message = self._next(method, deadline)
            if message.get("id") != number or "method" in message:
                continue
            if self.first_answer is None:
                self.first_answer = time.monotonic() - self._began
            result, error = message.get("result"), message.get("error")
            if isinstance(error, dict):
                raise _refused(method, error)
            if isinstance(result, dict):
                return result
            advice = "A response has an object as its 'result', or an 'error' with code and message."
            raise Fault(f"the answer to {method} is neither a result nor an error: {json.dumps(message)[:200]}", advice)

    @property
    def said(self) -> str:
        """What the process has written to stderr; all of it once the block is left."""
        return "".join(self._errors)

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self, message: dict[str, Any]) -> None:
        # A process that has ended is found out about by the missing answer, which says more.
        with contextlib.suppress(OSError):
            self._stdin.write(json.dumps(message) + "\n")
            self._stdin.flush()

    def _next(self, method: str, deadline: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            advice = "It may wait for something at its start, or not be an MCP server over stdio." + self._tail()
            what = f"no answer to {method} within {self._patience:g} seconds"
            raise Fault(what, advice, kind="silent", said=self.said) from None
        if line is None:
            ended, advice = self._end(), self._tail().strip()
            raise Fault(f"the process {ended} before it answered {method}", advice, kind="ended", said=self.said)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        advice = "Only MCP messages may go to standard output: print to stderr instead."
        raise Fault(f"a line on stdout is not a message: {line.strip()[:200]!r}", advice, kind="polluted")

    def _end(self) -> str:
        """How a process whose stdout has ended went on: one that goes on without it is no server."""
        try:
            return f"ended with exit code {self._process.wait(GRACE)}"
        except subprocess.TimeoutExpired:
            return "closed its stdout"

    def _tail(self) -> str:
        """The end of what the process wrote to stderr."""
        self._readers[1].join(0.2)
        said = "".join(self._errors).strip()[-TAIL:]
        return f" It said:\n{said}" if said else " It said nothing on stderr."

    def _read(self, stream: IO[str]) -> None:
        while line := stream.readline(LONGEST):
            if line.strip():
                self._lines.put(line)
        self._lines.put(None)

    def _keep(self, stream: IO[str]) -> None:
        while line := stream.readline(SAID):
            self._errors.append(line)


def _process(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """The server's process. Raises Fault."""
    try:
        return subprocess.Popen(  # noqa: S603 - the person's own command, no shell
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environ,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # so that what the process starts ends with it
        )
    except (OSError, ValueError) as error:  # the latter for a NUL in it
        advice = "Give the full path of the command: clients do not have your shell's PATH."
        why = getattr(error, "strerror", None) or error
        raise Fault(f"cannot start '{argv[0]}': {why}", advice, kind="not started") from error


def _refused(method: str, error: dict[str, Any]) -> Fault:
    if error.get("code") == METHOD_NOT_FOUND:
        advice = "It does not speak this era of the protocol."
        return Fault(f"the server does not know {method}", advice, kind="refused")
    what = f"{method} was refused: {error.get('message')} ({error.get('code')})"
    return Fault(what, "See the server's own log.", kind="refused")
