"""Ways to end a server, and streams that are read to the last byte."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2

from tests.client.raw_client import Json
from tests.client.server_process import ServerProcess, Way
from tests.kits.constants import CLIENT_INFO, HTTP_HEADERS, TIMEOUT
from tests.kits.survival.survival_kit import run_server

TOOLS = Path(__file__).with_name("ending_tools.py")
EOF = "EOF"
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
CLOSED = -32000
"""The code of a call that the end has cancelled, and of a request that comes too late."""
LONG = 600.0
"""A drain time that is far longer than a test waits for the end of a server."""
FAULTS = ("Traceback", "ERROR", "CRITICAL", "Exception", "never awaited")


def serving(way: Way, folder: Path, drain: float = LONG, **options: Any) -> contextlib.AbstractContextManager[Any]:
    """A server with the ending tools."""
    limits = {"drain": drain, "timeout": 3600, **options.pop("limits", {})}
    return run_server(way, folder, TOOLS, {"limits": limits}, **options)


def begin(server: Any, tool: str, name: str) -> Future[Json]:
    """Start a call, and wait until it runs."""
    waiting: Future[Json] = server.send_call(tool, name=name)
    server.wait_for_stderr(f"begun {name}")
    return waiting


def end(server: Any, how: str) -> None:
    """Have a server end: by a signal, or by the end of its input."""
    if how == EOF:
        server.close_input()
    else:
        server.signal(getattr(signal, how))


def drains(server: Any) -> None:
    """Wait until nothing new is taken."""
    eventually(lambda: is_shutting_down(server))


def is_shutting_down(server: Any) -> bool:
    """Whether a new request is."""
    error = server.send_request("tools/list").result(TIMEOUT).get("error", {})
    return bool(error.get("code") == CLOSED and "shutting down" in error["message"])


def eventually(true: Callable[[], bool], within: float = TIMEOUT) -> None:
    """Wait for a condition without a notification."""
    until = time.monotonic() + within
    while not true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def go(server: ServerProcess) -> None:
    """Release the waiting tools."""
    (server.folder / "go").touch()


def text_of(answer: Future[Json]) -> str:
    """The text of a result, waited for."""
    message = answer.result(TIMEOUT)
    assert "result" in message, message
    return str(message["result"]["content"][0]["text"])


def code_of(answer: Future[Json]) -> int:
    """The code of an error, waited for."""
    message = answer.result(TIMEOUT)
    assert "error" in message, message
    return int(message["error"]["code"])


def ends_well(server: Any) -> None:
    """Wait for the end: code 0, and no errors on stderr."""
    assert server.wait() == 0, server.stderr
    assert not [fault for fault in FAULTS if fault in server.stderr], server.stderr


class Streamed:
    """An HTTP response stream. `over` is set at its end, and `whole` is whether the end was proper."""

    def __init__(self, server: Any, method: str, path: str, **options: Any) -> None:
        self.text = ""
        self.status = 0
        self.whole = False
        self.over = threading.Event()
        self._opened = threading.Event()
        self._http = httpx2.Client(base_url=server.base, timeout=httpx2.Timeout(TIMEOUT, read=2 * TIMEOUT))
        threading.Thread(target=self._read, args=(method, path, options), daemon=True).start()
        assert self._opened.wait(TIMEOUT)

    def _read(self, method: str, path: str, options: dict[str, Any]) -> None:
        with (
            contextlib.suppress(httpx2.TransportError, OSError),
            self._http,
            self._http.stream(method, path, **options) as stream,
        ):
            self.status = stream.status_code
            self._socket = stream.extensions["network_stream"].get_extra_info("socket")
            self._opened.set()
            for text in stream.iter_text():
                self.text += text
            self.whole = True
        self.over.set()

    def has(self, words: str) -> None:
        """Wait until it has these words."""
        eventually(lambda: words in self.text or self.over.is_set())
        assert words in self.text, self.text

    def ends(self) -> bool:
        """Wait for its end; whether it was a proper one, and not a broken connection."""
        assert self.over.wait(TIMEOUT)
        return self.whole

    def leave(self) -> None:
        """Break the connection off."""
        self._socket.shutdown(socket.SHUT_RDWR)
        assert self.over.wait(TIMEOUT)

    @property
    def messages(self) -> list[Json]:
        """The received messages."""
        lines = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


class Sse:
    """A client of the legacy transport after the handshake."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.stream = Streamed(server, "GET", "/sse")
        self.stream.has("session_id=")
        self._path = re.findall(r"/messages\S+", self.stream.text)[0]
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": CLIENT_INFO}
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.stream.has('"id":0')
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: Json) -> None:
        """Post a message."""
        assert self._server.http.post(self._path, json=message).status_code == 202

    def begin(self, number: int, tool: str) -> None:
        """Start a numbered call, and wait until it runs."""
        params = {"name": tool, "arguments": {"name": f"number {number}"}}
        self.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        self._server.wait_for_stderr(f"begun number {number}")

    def answer(self, number: int) -> Json:
        """The answer to a request, waited for."""
        self.stream.has(f'"id":{number},')
        return next(message for message in self.stream.messages if message.get("id") == number)


def listening(server: Any) -> Streamed:
    """A subscriptions/listen stream, over HTTP."""
    request = server.make_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return Streamed(server, "POST", "/mcp", json=request, headers=server.make_headers(request))


def standing(server: Any) -> Streamed:
    """The standalone stream of a session."""
    return Streamed(server, "GET", "/mcp", headers={**HTTP_HEADERS, "Mcp-Session-Id": server.headers["Mcp-Session-Id"]})


def children(number: int) -> Iterator[int]:
    """Yield the child processes of a process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == number:
                yield int(stat.parent.name)
