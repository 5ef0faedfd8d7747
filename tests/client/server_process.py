"""A real server process and a raw client of it, over stdio or HTTP, in either era.

It is plain and synchronous on purpose: nothing between the test and the bytes can repair them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.client.http_client import make_standard_headers
from tests.client.raw_client import Json
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, HTTP_HEADERS, STATELESS, TIMEOUT, make_envelope

URL = re.compile(r"(http://\S+?)/mcp")


@dataclass(frozen=True)
class Way:
    """A transport and an era."""

    transport: str
    stateless: bool

    def __str__(self) -> str:
        return f"{self.transport}-{'stateless' if self.stateless else 'handshake'}"


@dataclass(frozen=True)
class ClientProfile:
    """The declared capabilities and the token of a client."""

    capabilities: Mapping[str, Any] = field(default_factory=dict)
    token: str = ""

    @property
    def initialize_params(self) -> Json:
        """The parameters of its `initialize` request."""
        return {"protocolVersion": HANDSHAKE, "capabilities": dict(self.capabilities), "clientInfo": CLIENT_INFO}


class ServerProcess:
    """A running server and one client of it. `stderr` is its log so far, `output` all bytes of its responses."""

    process: subprocess.Popen[bytes]

    def __init__(
        self,
        command: list[str],
        way: Way,
        profile: ClientProfile,
        *,
        env: Mapping[str, str],
        folder: Path = Path(),
        initialize: bool = True,
    ) -> None:
        self.way, self.profile, self.folder = way, profile, folder
        self.stderr = ""
        self.output = bytearray()
        self._has_new_stderr = threading.Condition()
        self._ids = itertools.count(1)
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        threading.Thread(target=self._read_stderr, daemon=True).start()
        self.connect()
        if initialize and not way.stateless:
            self.initialize()

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @cached_property
    def pid(self) -> int:
        """The id of the server process, below the two processes of its guard."""
        return find_server_pid(self.process.pid)

    @property
    def rss(self) -> int:
        """The resident memory of the server process, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def connect(self) -> None:
        """Prepare the connection."""
        raise NotImplementedError

    def initialize(self) -> None:
        """Do the handshake."""
        raise NotImplementedError

    def send_request(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        """Send a request of this era and return the future of its whole response."""
        raise NotImplementedError

    def send_call(self, name: str, /, **arguments: Any) -> Future[Json]:
        """Send a tools/call and return the future of its whole response."""
        return self.send_request("tools/call", {"name": name, "arguments": arguments})

    def get_result(self, name: str, /, **arguments: Any) -> Json:
        """Call a tool and return the result."""
        response = self.send_call(name, **arguments).result(TIMEOUT)
        assert "result" in response, response
        result: Json = response["result"]
        return result

    def get_text(self, name: str, /, **arguments: Any) -> str:
        """Call a tool and return the text of the result."""
        return str(self.get_result(name, **arguments)["content"][0]["text"])

    def wait_for_stderr(self, text: str, timeout: float = TIMEOUT) -> None:
        """Wait until stderr has this text."""
        with self._has_new_stderr:
            is_written = self._has_new_stderr.wait_for(lambda: text in self.stderr, timeout)
        assert is_written, f"it never wrote {text!r}, but: {self.stderr[-2000:]}"

    @contextlib.contextmanager
    def keep_call_in_flight(self, timeout: float = TIMEOUT) -> Iterator[None]:
        """Keep a call in flight during the block; it must get its result after the block."""
        token = os.urandom(4).hex()
        response = self.send_call("neighbour", token=token)
        self.wait_for_stderr(f"begun {token}")
        yield
        assert self.is_running, self.stderr[-2000:]
        assert not response.done(), response.result()
        assert "result" in self.send_call("release", token=token).result(timeout)
        assert response.result(timeout)["result"]["content"][0]["text"] == f"neighbour {token}"

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Wait for the end of the process and return its exit code."""
        return self.process.wait(timeout)

    def close(self) -> None:
        """Kill the process and close its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def make_request(self, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
        """Return a request of this era with the next id."""
        envelope = make_envelope(self.profile.capabilities) if self.way.stateless else {}
        envelope.update(meta or {})
        params = dict(params or {})
        if envelope:
            params["_meta"] = envelope
        request: Json = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if params:
            request["params"] = params
        return request

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._has_new_stderr:
                    self.stderr += line.decode(errors="replace")
                    self._has_new_stderr.notify_all()


class StdioServerProcess(ServerProcess):
    """A server over stdio. `received` has all messages, including requests and notifications of the server."""

    def connect(self) -> None:
        self.received: list[Json] = []
        self.invalid_lines: list[bytes] = []
        self._unread: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._responses: dict[Any, Future[Json]] = {}
        self._write_lock = threading.Lock()
        threading.Thread(target=self._read_output, daemon=True).start()

    def initialize(self) -> None:
        assert "result" in self.send_request("initialize", self.profile.initialize_params).result(TIMEOUT)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        with self._write_lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, message: Any) -> None:
        """Write a message as a line."""
        self.write(json.dumps(message).encode() + b"\n")

    def expect_response(self, request_id: Any) -> Future[Json]:
        """Return the future of the response with this id."""
        return self._responses.setdefault(request_id, Future())

    def send_request(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        request = self.make_request(method, params, meta)
        response = self.expect_response(request["id"])
        self.send(request)
        return response

    def receive(self) -> Json:
        """Return the next request or notification of the server."""
        return self._unread.get(timeout=TIMEOUT)

    def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request and return the whole response."""
        return self.send_request(method, params).result(TIMEOUT)

    def close_input(self) -> None:
        """End the input of the server."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def disconnect(self) -> int:
        """End the input of the server and return the exit code."""
        self.close_input()
        return self.wait()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        # The test closes the pipe at its end.
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self.output += line
                try:
                    message = json.loads(line)
                except ValueError:
                    self.invalid_lines.append(line)
                    continue
                self.received.append(message)
                if "method" in message:
                    self._unread.put(message)
                else:
                    with contextlib.suppress(Exception):
                        self.expect_response(message.get("id")).set_result(message)


class HttpServerProcess(ServerProcess):
    """A server over Streamable HTTP: `base` is its URL, `http` a plain client, `headers` those of every request."""

    def connect(self) -> None:
        self.wait_for_stderr("/mcp (")
        self.base = URL.findall(self.stderr)[0]
        self.http = httpx2.Client(base_url=self.base, timeout=TIMEOUT, limits=httpx2.Limits(max_connections=None))
        if self.profile.token:
            self.http.headers["Authorization"] = f"Bearer {self.profile.token}"
        self.headers = {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS if self.way.stateless else HANDSHAKE}

    def initialize(self) -> None:
        self.headers["Mcp-Session-Id"] = self.open_session()

    def open_session(self) -> str:
        """Do the handshake of a new session and return its id."""
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": self.profile.initialize_params}
        response = self.http.post("/mcp", json=request, headers=HTTP_HEADERS)
        assert response.status_code == 200, response.text
        self.output += response.content
        session_id = str(response.headers["mcp-session-id"])
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = {**HTTP_HEADERS, "MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session_id}
        assert self.http.post("/mcp", json=notification, headers=headers).status_code == 202
        return session_id

    def make_headers(self, request: Json) -> dict[str, str]:
        """Return the headers of a request, including its method and name."""
        if not self.way.stateless:
            return self.headers
        return {**self.headers, **make_standard_headers(request)}

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Post bytes as they are."""
        response = self.http.post("/mcp", content=body, headers=dict(self.headers if headers is None else headers))
        self.output += response.content
        return response

    def send_request(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        request = self.make_request(method, params, meta)
        future: Future[Json] = Future()

        def post() -> None:
            try:
                response = self.post(json.dumps(request).encode(), self.make_headers(request))
                future.set_result(parse_response(response))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=post, daemon=True).start()
        return future

    def close(self) -> None:
        """Kill the process and close its pipes and connections."""
        super().close()
        self.http.close()


def find_server_pid(launched_pid: int) -> int:
    """Return the id of the server process. With a guard, it is a grandchild of the launched process."""
    command = psutil.Process(launched_pid).cmdline()
    if sys.platform != "linux" or "--no-guard" in command:
        return launched_pid
    pid, deadline = launched_pid, time.monotonic() + TIMEOUT
    for _ in range(2):
        while not (children := psutil.Process(pid).children()):
            assert time.monotonic() < deadline, "the guard has no bridge"
            time.sleep(0.01)
        pid = min(children, key=lambda child: (child.create_time(), child.pid)).pid
        assert psutil.Process(pid).cmdline() == command
    return pid


def parse_response(response: httpx2.Response) -> Json:
    """Return the message in a body: plain JSON, or the last message of an SSE stream."""
    if "text/event-stream" in response.headers.get("content-type", ""):
        lines = re.split("\r?\n", response.text)
        events = [line[6:] for line in lines if line.startswith("data: ") and line[6:].strip()]
        message: Json = json.loads(events[-1])
    else:
        message = response.json()
    return message
