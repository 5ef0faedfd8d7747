"""A raw JSON-RPC conversation with a server process over stdio, which finds the cause of every failure.

A client library would hide the faults that are looked for here: prints on stdout, a crash at import, silence.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from mcp_bridge._cli.child_process import GRACE, ChildProcess
from mcp_bridge._cli.output import report
from mcp_bridge._cli.target import NO_RECORD

INHERITED = (
    *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "TEMP"),
)
"""The variables that clients pass to servers; others must be in the client's settings."""
STDERR_TAIL = 2_000
"""Characters of stderr that are shown."""
NOTICE = 2.0
"""Seconds after which `doctor` reports what it is waiting for."""
METHOD_NOT_FOUND = -32601

FaultKind = Literal["not started", "silent", "ended", "polluted", "refused", "malformed"]


def select_inherited(names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process that clients pass to servers, and those with these names."""
    return {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}


class ServerFault(Exception):
    """A problem and how to fix it; `stderr` is what the process had written there."""

    def __init__(self, problem: str, advice: str, *, kind: FaultKind = "malformed", stderr: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.kind = kind
        self.stderr = stderr


class ServerExchange(Protocol):
    """Requests to a server, over any transport. `stderr` is what its process has written there, if it has one."""

    first_response: float | None

    @property
    def stderr(self) -> str: ...

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]: ...

    def notify(self, method: str) -> None: ...


class Conversation(ChildProcess):
    """A server process and the messages exchanged with it; `timeout` is in seconds for each response.

    Without an `environ` the process gets the few variables of this one that clients pass to servers. `first_response`
    is the time from the start of the process to its first response, in seconds. Raises ServerFault.
    """

    def __init__(
        self, argv: Sequence[str], folder: Path, timeout: float, environ: Mapping[str, str] | None = None
    ) -> None:
        self._timeout = timeout
        self.first_response: float | None = None
        self._began = time.monotonic()
        self._ids = itertools.count(1)
        if environ is None:
            environ = select_inherited()
        try:
            super().__init__(argv, folder, {**environ, NO_RECORD: "1"})
        except (OSError, ValueError) as error:  # ValueError for a NUL character
            advice = "Use the full path of the command: clients do not have the PATH of your shell."
            reason = getattr(error, "strerror", None) or error
            raise ServerFault(f"cannot start '{argv[0]}': {reason}", advice, kind="not started") from error

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the process as a client does: close stdin, wait, then kill. After a failure the wait is short."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        try:
            self.wait_for_exit(self._timeout if kind is None else min(self._timeout, GRACE))
        finally:
            self.kill()
        self.close_streams()

    def notify(self, method: str) -> None:
        self.send({"jsonrpc": "2.0", "method": method})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result. Raises ServerFault."""
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        deadline = time.monotonic() + self._timeout
        with report_waiting(method, self._timeout):
            while True:
                message = self._receive_response(method, deadline)
                if str(message.get("id")) == str(number) and "method" not in message:
                    break
        if self.first_response is None:
            self.first_response = time.monotonic() - self._began
        return read_result(method, message)

    def _receive_response(self, method: str, deadline: float) -> dict[str, Any]:
        try:
            line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            problem = f"no response to {method} within {self._timeout:g} seconds"
            advice = f"It may block during startup, or not be an MCP server over stdio. {self._describe_stderr()}"
            raise ServerFault(problem, advice, kind="silent", stderr=self.stderr) from None
        if line is None:
            problem = f"the process {self._describe_end()} before it responded to {method}"
            raise ServerFault(problem, self._describe_stderr(), kind="ended", stderr=self.stderr)
        if not line.strip():
            return {}
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        advice = "Only MCP messages may be written to stdout: print to stderr instead."
        raise ServerFault(f"a line on stdout is not a message: {line.strip()[:200]!r}", advice, kind="polluted")

    def _describe_end(self) -> str:
        self.wait_for_exit(GRACE)
        code = self.process.returncode
        return f"exited with code {code}" if code is not None else "closed its stdout"

    def _describe_stderr(self) -> str:
        stderr = self.read_stderr_tail(STDERR_TAIL, 0.2)
        return f"Its stderr:\n{stderr}" if stderr else "It wrote nothing to stderr."


def read_result(method: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a response. Raises ServerFault for an error, and for a response with neither."""
    result, error = message.get("result"), message.get("error")
    if isinstance(error, dict):
        raise make_fault(method, error)
    if isinstance(result, dict):
        return result
    advice = "A response needs an object as 'result', or an 'error' with code and message."
    problem = f"the response to {method} is neither a result nor an error: {json.dumps(message)[:200]}"
    raise ServerFault(problem, advice)


@contextlib.contextmanager
def report_waiting(method: str, timeout: float) -> Iterator[None]:
    """Report on stderr that a response takes long, while the block runs."""
    text = f"waiting for the response to {method}, at most {timeout:g} seconds"
    timer = threading.Timer(NOTICE, report, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def make_fault(method: str, error: dict[str, Any]) -> ServerFault:
    if error.get("code") == METHOD_NOT_FOUND:
        advice = "It does not support this protocol version."
        return ServerFault(f"the server does not know {method}", advice, kind="refused")
    problem = f"{method} failed: {error.get('message')} ({error.get('code')})"
    return ServerFault(problem, "See the server's own log.", kind="refused")
