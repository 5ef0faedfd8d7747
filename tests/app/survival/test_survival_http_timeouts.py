"""The server disconnects HTTP clients that send or read too slowly, without an effect on others."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli import serve as serve_command
from mcp_bridge._cli.target import load_target
from mcp_bridge._transports.http.app import HttpOptions
from tests.client.server_process import HttpServerProcess
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.survival.survival_kit import SECOND_WAY, run_server

QUICK = 1.0
"""The time-outs of these tests in seconds; they wait for what must come, and measure only that it was not early."""
LARGE = 30_000_000
"""The number of bytes of a response that no socket buffers."""
ROUNDS = 8
"""How often clients leave until the memory of the server stops growing: allocators take a while."""
SHORT = {"http": {"client_timeout": QUICK}}
LIST = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": ENVELOPE}}).encode()
TOOLS = """
import anyio
from mcp_bridge import tool

@tool
def large(size: int) -> str:
    "So many letters."
    return "x" * size

@tool
async def slow(seconds: float) -> str:
    "Answer after a while."
    await anyio.sleep(seconds)
    return "at last"

@tool
async def busy(seconds: float) -> str:
    "Hold the event loop."
    import sys, time
    print("holding", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return "done"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServerProcess]:
    """Run a server with short timeouts."""
    settings = {**SHORT, "limits": {"result": "256 MiB", "timeout": "120s"}}
    with run_server(SECOND_WAY, tmp_path_factory.mktemp("timeouts"), TOOLS, settings) as started:
        yield started


@contextlib.contextmanager
def connect(server: HttpServerProcess) -> Iterator[socket.socket]:
    """Open a plain TCP connection."""
    host, _, port = server.base.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def make_head(server: HttpServerProcess, length: str, first: str = "POST /mcp HTTP/1.1", routing: Any = None) -> bytes:
    """Return the head of a request."""
    headers = routing or {**server.headers, "Mcp-Method": "tools/list"}
    lines = [first, "Host: localhost", *(f"{name}: {value}" for name, value in headers.items()), length]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def make_call(server: HttpServerProcess, number: int, name: str, **arguments: Any) -> bytes:
    """Return a whole request for a call."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if server.way.stateless:
        params["_meta"] = ENVELOPE
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    body = json.dumps(request).encode()
    return make_head(server, f"Content-Length: {len(body)}", routing=server.make_headers(request)) + body


def send_slowly(connection: socket.socket, data: Iterator[bytes]) -> bytes:
    """Send pieces with pauses until the server closes the connection, and return its response."""
    response = b""
    connection.settimeout(QUICK / 20)
    deadline = time.monotonic() + TIMEOUT
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < deadline:
            connection.sendall(next(data, b""))
            with contextlib.suppress(TimeoutError):
                got = connection.recv(65536)
                if not got:
                    return response
                response += got
        pytest.fail(f"it was never closed, and sent {response!r}")
    return response


CHUNKED = "Transfer-Encoding: chunked"
BODY = f"Content-Length: {len(LIST)}"
DRIPS = {
    "the first line drips": ("POST /", [b"m"] * 999, 408),
    "headers drip": ("POST /mcp HTTP/1.1\r\n", [b"X: y\r\n"] * 999, 408),
    "a header drips": ("POST /mcp HTTP/1.1\r\nX: ", [b"y"] * 999, 408),
    "headers stop": ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n", [], 408),
    "a body drips": (BODY, [b" "] * 999, 408),
    "a body stops": (BODY, [], 408),
    "a chunked body drips": (CHUNKED, [b"1\r\n \r\n"] * 999, 408),
    "a chunk stops": (CHUNKED, [b"ff\r\n {"], 408),
    "a trailer drips": (CHUNKED, [b"0\r\n", *[b"X: y\r\n"] * 999], 408),
    "nothing is sent": ("", [], 0),
    "empty lines drip": ("", [b"\r\n"] * 999, 0),
}


def test_a_request_that_takes_too_long_is_closed(server: HttpServerProcess) -> None:
    def status_of(begin: str, pieces: list[bytes]) -> int:
        with connect(server) as connection:
            began = time.monotonic()
            connection.sendall(make_head(server, begin) if begin in (BODY, CHUNKED) else begin.encode())
            response = send_slowly(connection, iter(pieces))
            assert time.monotonic() - began > QUICK * 0.9
        return int(response.split(b" ", 2)[1]) if response else 0

    # The clients wait at the same time.
    with server.keep_call_in_flight(), ThreadPoolExecutor(len(DRIPS)) as clients:
        futures = {name: clients.submit(status_of, begin, pieces) for name, (begin, pieces, _) in DRIPS.items()}
        statuses = {name: status.result() for name, status in futures.items()}
    assert statuses == {name: status for name, (_, _, status) in DRIPS.items()}
    assert "Traceback" not in server.stderr


def test_a_slow_second_request_of_a_connection_is_rejected_too(server: HttpServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(make_head(server, BODY) + LIST + b"POST /")
        response = send_slowly(connection, repeat(b"m"))
    assert [response.count(b"HTTP/1.1 200 "), response.count(b"HTTP/1.1 408 ")] == [1, 1]


def test_a_connection_that_is_idle_after_a_response_is_closed(server: HttpServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(make_head(server, BODY) + LIST)
        response = send_slowly(connection, repeat(b""))
    assert response.count(b"HTTP/1.1 200 ") == response.count(b"HTTP/1.1 ") == 1


def test_a_connection_of_an_early_rejected_request_is_closed(server: HttpServerProcess) -> None:
    for body in (b"5\r\nabcde\r\n", b"500000\r\n" + bytes(0x500000) + b"\r\n0\r\n\r\n"):
        with connect(server) as connection:
            connection.sendall(make_head(server, CHUNKED, first="POST /nothing HTTP/1.1") + body)
            assert send_slowly(connection, repeat(b"")).startswith(b"HTTP/1.1 404 ")


def test_a_call_may_take_longer_than_the_timeout_for_clients(server: HttpServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(make_call(server, 501, "slow", seconds=QUICK * 3) + b"\r\n" + make_head(server, BODY)[:50])
        connection.settimeout(TIMEOUT)
        response = b""
        while b"at last" not in response and (got := connection.recv(65536)):
            response += got
    assert b"at last" in response


def test_a_request_that_waited_for_the_event_loop_is_not_late(server: HttpServerProcess) -> None:
    data = make_call(server, 502, "echo", text="in time")
    with connect(server) as connection:
        connection.sendall(data[:100])
        call_ahead = server.send_call("busy", seconds=QUICK * 3)
        server.wait_for_stderr("holding")
        connection.sendall(data[100:])
        response = b""
        while b"in time" not in response and (got := connection.recv(65536)):
            response += got
        assert b"in time" in response
        assert "result" in call_ahead.result(TIMEOUT)


def test_a_client_that_does_not_read_a_large_response_is_disconnected_and_its_memory_freed(
    server: HttpServerProcess,
) -> None:
    numbers = count(510)
    with server.keep_call_in_flight():
        sizes: list[int] = []
        # Four answers that are kept would need four times as much.
        while len(sizes) < 2 or sizes[-1] > sizes[-2] + LARGE:
            assert len(sizes) < ROUNDS, sizes
            with contextlib.ExitStack() as opened:
                for connection in [opened.enter_context(connect(server)) for _ in range(4)]:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.sendall(make_call(server, next(numbers), "large", size=LARGE))
                    opened.callback(wait_for_reset, connection)
            sizes.append(server.rss)
    assert "Traceback" not in server.stderr


def wait_for_reset(connection: socket.socket) -> None:
    """Wait until the server resets a connection without a reader."""
    poll = select.poll()
    poll.register(connection, 0)
    assert poll.poll(TIMEOUT * 1000)


def test_an_sse_stream_that_is_not_read_is_closed(server: HttpServerProcess) -> None:
    with server.keep_call_in_flight(), connect(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        response = b""
        while b"session_id=" not in response or not response.endswith(b"\r\n"):
            response += connection.recv(65536)
        path = response.partition(b"data: ")[2].split()[0].decode()
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "large", "arguments": {"size": LARGE}}},
        ):
            assert server.http.post(path, json={"jsonrpc": "2.0", **message}).status_code == 202
        wait_for_reset(connection)
    assert "Traceback" not in server.stderr


def test_a_client_that_reads_a_large_response_slowly_gets_all_of_it(server: HttpServerProcess) -> None:
    size = 12_000_000
    with connect(server) as connection:
        connection.sendall(make_call(server, 504, "large", size=size))
        began, count = time.monotonic(), 0
        while count < size and (got := connection.recv(200_000)):
            count += len(got)
            time.sleep(0.05)
        assert time.monotonic() - began > QUICK
    assert count >= size


def test_the_times_are_those_of_the_settings_and_10_and_60_seconds_without_them(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    timeouts = {}
    for name, http in {"none": "{}", "some": "{client_timeout: 3s}"}.items():
        (tmp_path / f"{name}.yaml").write_text(f"sources: [{{type: python, path: tools.py}}]\nhttp: {http}")
        _, _, options = serve_command._choose_http_options(load_target(tmp_path / f"{name}.yaml"), "settings", None)
        timeouts[name] = (options.timeouts.receive, options.timeouts.send)
    assert timeouts == {"none": (10.0, 60.0), "some": (3.0, 3.0)}
    assert (HttpOptions().timeouts.receive, HttpOptions().timeouts.send) == (10.0, 60.0)
