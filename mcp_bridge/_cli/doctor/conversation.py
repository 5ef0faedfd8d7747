"""A conversation with a server in one era, over the channel of upstreams, to find the cause of each failure.

A session of an upstream tolerates other lines on stdout, late responses and unknown errors. Here, each of these is a
fault. A request ends in one of four ways: with its response (`_handle_message`), a fault in the received data
(`_handle_fault`), the end of the connection (`_handle_end`) or the timeout. After a fault, each later request reports
it again, because no later data can be trusted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio

from mcp_bridge._cli.output import report
from mcp_bridge._cli.server_address import ServerAddress, make_server_url
from mcp_bridge._cli.target import NO_RECORD_VARIABLE
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND
from mcp_bridge._protocol.peer.connection import Message, make_notification
from mcp_bridge._upstream.child import LaunchCommand
from mcp_bridge._upstream.messages import INVALID_RESPONSE, NOT_RECEIVED, ReceivedFault

if TYPE_CHECKING:
    from mcp_bridge._upstream.connection import UpstreamAddress
    from mcp_bridge._upstream.session import UpstreamChannel

INHERITED = (
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
    "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "TEMP",
)  # fmt: skip
"""The variables that all clients pass to servers. Others must be in the entry of the server."""
MAX_STDERR = 4 * 1024 * 1024
"""The maximum number of bytes of stderr that are searched, from its end."""
STDERR_TAIL = 2_000
"""The maximum number of characters of stderr that are shown, from its end."""
MAX_SHOWN = 200
"""The maximum number of characters of a message that are shown."""
NOTICE_DELAY = 2.0
"""Seconds after which `doctor` reports what it is waiting for."""
_ADVICE_BY_STATUS = {
    401: "Sign in with `mcp-bridge login URL`, or pass a token: --token-env NAME sends the value of that environment "
    "variable as a bearer token.",
    403: "The server does not accept this token, or this host.",
    404: "Check the path of the URL: it often ends in /mcp.",
    405: "Check the path of the URL: it often ends in /mcp.",
}
_STDOUT_ADVICE = "Only MCP messages may be written to stdout: print to stderr instead."
_RESPONSE_ADVICE = "A response needs an object as 'result', or an 'error' with code and message."

FaultKind = Literal["not started", "silent", "ended", "polluted", "refused", "malformed"]


def select_inherited(names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process for servers: those of every client, and those with these names."""
    return {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}


class ServerFault(Exception):
    """A problem of a server, and how to fix it. If `stderr` is given, the advice contains its last lines."""

    def __init__(self, problem: str, advice: str, *, kind: FaultKind = "malformed", stderr: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.kind = kind
        self.stderr = stderr
        self._advice = advice

    @property
    def advice(self) -> str:
        if self.stderr is None:
            return self._advice
        tail = self.stderr.strip()[-STDERR_TAIL:]
        output = f"Its stderr:\n{tail}" if tail else "It wrote nothing to stderr."
        return f"{self._advice} {output}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """The command of a server, its folder and variables, and the timeout of each response in seconds."""

    argv: Sequence[str]
    folder: Path
    timeout: float
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStart:
    """The address of a running server, and the timeout of each response in seconds."""

    address: ServerAddress
    timeout: float


class Conversation:
    """Requests to a server, and the faults in its messages.

    Attributes:
        first_response: Seconds from the start to the first response.
    """

    def __init__(self, start: StartCommand | RemoteStart) -> None:
        self.first_response: float | None = None
        self._start = start
        self._began = time.monotonic()
        self._channel: UpstreamChannel | None = None
        self._method = ""
        self._number = 0
        self._responses: dict[int, Message] = {}
        self._settled = anyio.Event()
        self._stderr = bytearray()
        self._fault: ServerFault | None = None
        self._end = ""

    @property
    def stderr(self) -> str:
        """The stderr of the process, complete after its end."""
        return self._stderr.decode(errors="replace")

    @asynccontextmanager
    async def connect_to_server(self) -> AsyncIterator[None]:
        """Connect to the server, and end the connection and its process after the block. Raises ServerFault."""
        try:
            async with self._build_address().open_channel(self._handle_message, self._handle_end) as channel:
                self._channel = channel
                yield
        except SourceError as error:
            advice = "Use the full path of the command: clients do not have the PATH of your shell."
            raise ServerFault(str(error), advice, kind="not started") from error

    def _build_address(self) -> UpstreamAddress:
        start = self._start
        if isinstance(start, StartCommand):
            return LaunchCommand(
                command=start.argv[0],
                args=start.argv[1:],
                env={**start.environ, NO_RECORD_VARIABLE: "1"},
                directory=start.folder,
                inherits=False,
                on_print=self._keep_stderr,
                on_fault=self._handle_fault,
            )
        return make_server_url(start.address, self._handle_fault)

    def adopt_version(self, version: str) -> None:
        """Send this protocol version from now on. HTTP has a header for it."""
        assert self._channel is not None
        self._channel.adopt_version(version)

    async def notify(self, method: str) -> None:
        """Send a notification, and wait until it is written."""
        assert self._channel is not None
        self._channel.stream.send(make_notification(method, None))
        with anyio.move_on_after(self._start.timeout):
            await self._channel.stream.drain()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Raises ServerFault."""
        assert self._channel is not None
        self._method = method
        self._number += 1
        if not (self._fault or self._end):
            self._settled = anyio.Event()
            self._channel.stream.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
            with report_waiting(method, self._start.timeout), anyio.move_on_after(self._start.timeout):
                await self._settled.wait()
        if self._fault is not None:
            raise self._fault
        response = self._responses.pop(self._number, None)
        if response is None:
            raise self._explain_silence()
        error = response.get("error")
        if error is not None and error["code"] in (CONNECTION_CLOSED, NOT_RECEIVED):
            raise self._explain_end(error["message"])
        if self.first_response is None:
            self.first_response = time.monotonic() - self._began
        if error is not None:
            raise self._explain_error(error["code"], error["message"])
        result: dict[str, Any] = response["result"]
        return result

    def _handle_message(self, message: Message, origin: Any) -> bool:
        """Handle a message of the server. Its requests are not served, and its notifications are ignored."""
        if "method" not in message and str(message.get("id")) == str(self._number):
            self._responses[self._number] = message
            self._settled.set()
        return True

    def _handle_end(self, reason: str) -> None:
        """End the wait for a response, because the connection has ended for this reason."""
        self._end = reason
        self._settled.set()

    def _handle_fault(self, fault: ReceivedFault) -> None:
        self._fault = self._fault or self._explain_fault(fault)
        self._settled.set()

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-MAX_STDERR]

    def _explain_fault(self, fault: ReceivedFault) -> ServerFault:
        if 300 <= fault.status < 400:
            return ServerFault(fault.problem, "Check the URL.", kind="refused")
        if fault.status:
            phrase = responses.get(fault.status, "")
            problem = f"the response to {self._method} has the status {fault.status} {phrase}".strip()
            advice = _ADVICE_BY_STATUS.get(fault.status, "See the server's own log.")
            return ServerFault(problem, advice, kind="refused")
        text = fault.data.decode(errors="replace").strip()[:MAX_SHOWN]
        if fault.is_object:
            problem = f"the response to {self._method} is neither a result nor an error: {text}"
            return ServerFault(problem, _RESPONSE_ADVICE)
        if isinstance(self._start, StartCommand):
            problem = f"a line on stdout: {fault.problem}"
            if text:
                problem = f"a line on stdout is not a message: {text!r}"
            return ServerFault(problem, _STDOUT_ADVICE, kind="polluted")
        problem = fault.problem
        if text:
            problem = f"the response to {self._method} is not a message: {text!r}"
        return ServerFault(problem, "Check the URL: there may be no MCP server.")

    def _explain_silence(self) -> ServerFault:
        if self._end:
            return self._explain_end(self._end)
        problem = f"no response to {self._method} within {self._start.timeout:g} seconds"
        if isinstance(self._start, RemoteStart):
            return ServerFault(problem, "The server may be busy, or may not be an MCP server.", kind="silent")
        advice = "It may block during startup, or not be an MCP server over stdio."
        return ServerFault(problem, advice, kind="silent", stderr=self.stderr)

    def _explain_end(self, reason: str) -> ServerFault:
        if isinstance(self._start, RemoteStart):
            return ServerFault(reason, "Check the URL, and that the server is running.", kind="not started")
        return ServerFault(f"{reason} before it responded to {self._method}", "", kind="ended")

    def _explain_error(self, code: int, message: str) -> ServerFault:
        if code == METHOD_NOT_FOUND:
            advice = "It does not support this protocol version."
            return ServerFault(f"the server does not know {self._method}", advice, kind="refused")
        if code == INVALID_RESPONSE:
            advice = "Each request needs a response with its id."
            return ServerFault(f"the response to {self._method} is missing: {message}", advice)
        return ServerFault(f"{self._method} failed: {message} ({code})", "See the server's own log.", kind="refused")


@contextlib.contextmanager
def report_waiting(method: str, timeout: float) -> Iterator[None]:
    """Report on stderr what the block is waiting for, if it takes long."""
    text = f"waiting for the response to {method}, at most {timeout:g} seconds"
    timer = threading.Timer(NOTICE_DELAY, report, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
