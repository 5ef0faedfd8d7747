"""For tests of the end of a server: calls in flight, ways to end the server, and streams with a record of their end."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2

from tests.client.raw_client import Json
from tests.client.server_process import ServerProcess, Way
from tests.kits.constants import CLIENT_INFO, HTTP_HEADERS, TIMEOUT
from tests.kits.survival.survival_kit import run_server
from tests.kits.waiting import wait_until

TOOLS = Path(__file__).with_name("ending_tools.py")
EOF = "EOF"
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
CLOSED = -32000
"""The error code of a call that the shutdown cancels, and of a request that arrives during the shutdown."""
LONG = 600.0
"""A drain time that is far longer than a test waits for the end of a server."""
FAULTS = ("Traceback", "ERROR", "CRITICAL", "Exception", "never awaited")


def run_ending_server(
    way: Way, folder: Path, drain: float = LONG, **options: Any
) -> contextlib.AbstractContextManager[Any]:
    """Return a context with a server with the tools of ending_tools.py."""
    limits = {"drain": drain, "timeout": 3600, **options.pop("limits", {})}
    return run_server(way, folder, TOOLS, {"limits": limits}, **options)


def begin_call(server: Any, tool: str, name: str) -> Future[Json]:
    """Start a call, and wait until it runs."""
    waiting: Future[Json] = server.send_call(tool, name=name)
    server.wait_for_stderr(f"begun {name}")
    return waiting


def end_server(server: Any, how: str) -> None:
    """End a server with a signal, or with the end of its input."""
    if how == EOF:
        server.close_input()
    else:
        server.signal(getattr(signal, how))


def wait_until_draining(server: Any) -> None:
    """Wait until the server rejects new requests."""
    wait_until(lambda: is_shutting_down(server))


def is_shutting_down(server: Any) -> bool:
    """Whether the server rejects a new request because it is shutting down."""
    error = server.send_request("tools/list").result(TIMEOUT).get("error", {})
    return bool(error.get("code") == CLOSED and "shutting down" in error["message"])


def release_tools(server: ServerProcess) -> None:
    """Release the waiting tools."""
    (server.folder / "go").touch()


def wait_for_text(answer: Future[Json]) -> str:
    """Wait for a result, and return its text."""
    message = answer.result(TIMEOUT)
    assert "result" in message, message
    return str(message["result"]["content"][0]["text"])


def wait_for_code(answer: Future[Json]) -> int:
    """Wait for an error, and return its code."""
    message = answer.result(TIMEOUT)
    assert "error" in message, message
    return int(message["error"]["code"])


def assert_clean_exit(server: Any) -> None:
    """Wait for the end: code 0, and no errors on stderr."""
    assert server.wait() == 0, server.stderr
    assert not [fault for fault in FAULTS if fault in server.stderr], server.stderr


class ResponseStream:
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
        """Wait until the stream has these words."""
        wait_until(lambda: words in self.text or self.over.is_set())
        assert words in self.text, self.text

    def ends(self) -> bool:
        """Wait for the end of the stream; return whether the server ended it, and the connection did not break."""
        assert self.over.wait(TIMEOUT)
        return self.whole

    def leave(self) -> None:
        """Break the connection."""
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
        self.stream = ResponseStream(server, "GET", "/sse")
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
        """Wait for the response to a request, and return it."""
        self.stream.has(f'"id":{number},')
        return next(message for message in self.stream.messages if message.get("id") == number)


def open_listen_stream(server: Any) -> ResponseStream:
    """Open a subscriptions/listen stream over HTTP."""
    request = server.make_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return ResponseStream(server, "POST", "/mcp", json=request, headers=server.make_headers(request))


def open_session_stream(server: Any) -> ResponseStream:
    """Open the standalone stream of a session."""
    return ResponseStream(
        server, "GET", "/mcp", headers={**HTTP_HEADERS, "Mcp-Session-Id": server.headers["Mcp-Session-Id"]}
    )


def list_children(number: int) -> Iterator[int]:
    """Yield the child processes of a process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == number:
                yield int(stat.parent.name)
