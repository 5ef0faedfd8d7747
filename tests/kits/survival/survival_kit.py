"""A real server process, and a client that writes whatever it likes: over stdio and HTTP, in both eras.

Plain and synchronous on purpose: nothing between the test and the bytes can mend what is wrong with them.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.kits.constants import CLIENT_INFO, ENVELOPE, HANDSHAKE, HTTP_HEADERS, STATELESS, TIMEOUT

URL = re.compile(r"(http://\S+?)/mcp")
OURS = Path(__file__).with_name("survival_tools.py")
Json = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A transport and an era."""

    transport: str
    stateless: bool

    def __str__(self) -> str:
        return f"{self.transport}-{'stateless' if self.stateless else 'handshake'}"


WAYS = [Way(transport, stateless) for transport in ("stdio", "http") for stateless in (False, True)]
ONE = Way("stdio", stateless=True)
"""The way of a test whose subject is the same on every way."""
OTHER = Way("http", stateless=False)
"""The way that differs from it in both the transport and the era."""
ON_ONE_WAY = pytest.mark.parametrize("way", [ONE], ids=str)
BOTH = pytest.mark.parametrize("way", [ONE, OTHER], ids=str)


def on_one_way(name: str, rows: Iterable[Any], smoke: Iterable[Any] = ()) -> pytest.MarkDecorator:
    """Run each row of a table on one way, and the few rows of the smoke test on the other."""
    cases = [*((ONE, row) for row in rows), *((OTHER, row) for row in smoke)]
    return pytest.mark.parametrize(("way", name), cases, ids=[f"{way}-{ascii(row)[1:-1]}" for way, row in cases])


@dataclass(frozen=True)
class Guest:
    """What a client declares that it can do, and the token that it sends."""

    can: Mapping[str, Any] = field(default_factory=dict)
    token: str = ""

    @property
    def hello(self) -> Json:
        """The parameters of its handshake."""
        return {"protocolVersion": HANDSHAKE, "capabilities": dict(self.can), "clientInfo": CLIENT_INFO}


class Live:
    """A running server and one client of it. `err` is all that it has said on stderr, `raw` all bytes it answered."""

    way: Way
    process: subprocess.Popen[bytes]

    def __init__(self, way: Way, folder: Path, command: list[str], env: Mapping[str, str], guest: Guest) -> None:
        self.way, self.folder, self.guest = way, folder, guest
        self.err = ""
        self.raw = bytearray()
        self._heard_more = threading.Condition()
        self._ids = itertools.count(1)
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        threading.Thread(target=self._hear, daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    @cached_property
    def pid(self) -> int:
        """The process that serves, which is below the two of its guard."""
        return bridge_of(self.process.pid)

    @property
    def rss(self) -> int:
        """The resident memory of the process that serves, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def ask(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        """Send a request of this era; its whole answer, `result` or `error`, to be waited for."""
        raise NotImplementedError

    def call(self, name: str, /, **arguments: Any) -> Future[Json]:
        """Send a tools/call."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def result(self, name: str, /, **arguments: Any) -> Json:
        """The result of a call, waited for."""
        answer = self.call(name, **arguments).result(TIMEOUT)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def text(self, name: str, /, **arguments: Any) -> str:
        """The text in the result of a call."""
        return str(self.result(name, **arguments)["content"][0]["text"])

    def says(self, words: str, within: float = TIMEOUT) -> None:
        """Wait until stderr has these words."""
        with self._heard_more:
            found = self._heard_more.wait_for(lambda: words in self.err, within)
        assert found, f"it never said {words!r}, but: {self.err[-2000:]}"

    @contextlib.contextmanager
    def neighbour(self, within: float = TIMEOUT) -> Iterator[None]:
        """A call that is in flight for the length of the block, and answered after it."""
        token = os.urandom(4).hex()
        waiting = self.call("neighbour", token=token)
        self.says(f"begun {token}")
        yield
        assert self.alive, self.err[-2000:]
        assert not waiting.done(), waiting.result()
        assert "result" in self.call("release", token=token).result(within)
        assert waiting.result(within)["result"]["content"][0]["text"] == f"neighbour {token}"

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def ends(self, within: float = TIMEOUT) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(within)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _request(self, method: str, params: Json | None, meta: Json | None) -> Json:
        can = {"io.modelcontextprotocol/clientCapabilities": dict(self.guest.can)}
        given = {**({**ENVELOPE, **can} if self.way.stateless else {}), **(meta or {})}
        whole = {**(params or {}), **({"_meta": given} if given else {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, **({"params": whole} if whole else {})}

    def _hear(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._heard_more:
                    self.err += line.decode(errors="replace")
                    self._heard_more.notify_all()


class StdioLive(Live):
    """Over stdio. `heard` has every message, the server's own requests and notifications among them."""

    def __init__(self, way: Way, folder: Path, command: list[str], env: Mapping[str, str], guest: Guest) -> None:
        super().__init__(way, folder, command, env, guest)
        self.heard: list[Json] = []
        self.garbage: list[bytes] = []
        self._open: dict[Any, Future[Json]] = {}
        self._writing = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        if not way.stateless:
            assert "result" in self.ask("initialize", guest.hello).result(TIMEOUT)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, message: Any) -> None:
        """Write a message as a line."""
        self.write(json.dumps(message).encode() + b"\n")

    def expect(self, number: Any) -> Future[Json]:
        """The answer that will have this id."""
        return self._open.setdefault(number, Future())

    def ask(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        """Send a request of this era."""
        request = self._request(method, params, meta)
        waiting = self.expect(request["id"])
        self.send(request)
        return waiting

    def hang_up(self) -> None:
        """End the server's input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # closed at the end of the test
            for line in self.process.stdout:
                self.raw += line
                try:
                    message = json.loads(line)
                except ValueError:
                    self.garbage.append(line)
                    continue
                self.heard.append(message)
                if "method" not in message:
                    with contextlib.suppress(Exception):
                        self.expect(message.get("id")).set_result(message)


class HttpLive(Live):
    """Over Streamable HTTP: `base` is the URL, `http` a plain client, `headers` those of a request of this era."""

    def __init__(self, way: Way, folder: Path, command: list[str], env: Mapping[str, str], guest: Guest) -> None:
        super().__init__(way, folder, command, env, guest)
        self.says("/mcp (")
        self.base = URL.findall(self.err)[0]
        self.http = httpx2.Client(base_url=self.base, timeout=TIMEOUT, limits=httpx2.Limits(max_connections=None))
        if guest.token:
            self.http.headers["Authorization"] = f"Bearer {guest.token}"
        self.headers = {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS if way.stateless else HANDSHAKE}
        if not way.stateless:
            self.headers["Mcp-Session-Id"] = self.session()

    def session(self) -> str:
        """Shake hands; the id of a new session."""
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": self.guest.hello}
        answer = self.http.post("/mcp", json=first, headers=HTTP_HEADERS)
        assert answer.status_code == 200, answer.text
        self.raw += answer.content
        found = str(answer.headers["mcp-session-id"])
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = {**HTTP_HEADERS, "MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": found}
        assert self.http.post("/mcp", json=ready, headers=headers).status_code == 202
        return found

    def routing(self, request: Json) -> dict[str, str]:
        """The headers of a request, those that repeat its method and name among them."""
        if not self.way.stateless:
            return self.headers
        params = request.get("params") or {}
        name = params.get("name") or params.get("uri")
        named = {"Mcp-Name": header_of(name)} if name else {}
        return {**self.headers, "Mcp-Method": header_of(request["method"]), **named}

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Post bytes as they are."""
        answer = self.http.post("/mcp", content=body, headers=dict(headers if headers is not None else self.headers))
        self.raw += answer.content
        return answer

    def ask(self, method: str, params: Json | None = None, meta: Json | None = None) -> Future[Json]:
        """Send a request of this era, from a thread of its own."""
        request = self._request(method, params, meta)
        waiting: Future[Json] = Future()

        def work() -> None:
            try:
                answer = self.post(json.dumps(request).encode(), self.routing(request))
                waiting.set_result(message_of(answer))
            except BaseException as error:
                waiting.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return waiting

    def close(self) -> None:
        """Leave nothing behind."""
        super().close()
        self.http.close()


def bridge_of(front: int) -> int:
    """The process of the bridge, given the one that was launched: with a guard, the eldest child of its eldest."""
    command = psutil.Process(front).cmdline()
    if sys.platform != "linux" or "--no-guard" in command:
        return front
    pid, until = front, time.monotonic() + TIMEOUT
    for _ in range(2):
        while not (children := psutil.Process(pid).children()):
            assert time.monotonic() < until, "the guard has no bridge"
            time.sleep(0.01)
        pid = min(children, key=lambda child: (child.create_time(), child.pid)).pid
        assert psutil.Process(pid).cmdline() == command
    return pid


def header_of(value: str) -> str:
    """A value as a header carries it: in base64 where it is no printable ASCII (basic/transports, "Value Encoding")."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def message_of(answer: httpx2.Response) -> Json:
    """The answer in a body: plain JSON, or the last message of an SSE stream."""
    if "text/event-stream" in answer.headers.get("content-type", ""):
        events = [line[6:] for line in re.split("\r?\n", answer.text) if line.startswith("data: ") and line[6:].strip()]
        message: Json = json.loads(events[-1])
        return message
    made: Json = answer.json()
    return made


@contextlib.contextmanager
def live(
    way: Way,
    folder: Path,
    tools: Path | str = "",
    settings: Json | None = None,
    env: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    guest: Guest | None = None,
) -> Iterator[Any]:
    """A server process with the survival tools, and those of a file (a path, or its text); it ends with the block.

    `settings` are those of the settings file, but for its first source and the time of a neighbour.
    """
    (folder / "survival_tools.py").write_text(OURS.read_text())
    text = tools.read_text() if isinstance(tools, Path) else tools
    if text:
        (folder / "own_tools.py").write_text(text)
    own = [{"type": "python", "path": "own_tools.py"}] if text else []
    given = dict(settings or {})
    limits = given.get("limits", {})
    given["limits"] = {**limits, "tools": {"neighbour": {"timeout": 3600}, **limits.get("tools", {})}}
    given["sources"] = [{"type": "python", "path": "survival_tools.py"}, *given.get("sources", own)]
    (folder / "mcp-bridge.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "mcp_bridge", "serve", "mcp-bridge.json", *options]
    if way.transport == "http":
        command += ["--http", "127.0.0.1:0"]
    kind = HttpLive if way.transport == "http" else StdioLive
    unmeasured = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    server = kind(way, folder, command, {**unmeasured, **(env or {})}, guest or Guest())
    try:
        yield server
    finally:
        server.close()
