"""Many clients over HTTP: 500 concurrent clients, 1,000 abandoned sessions, more connections than file descriptors."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.client.raw_client import Json
from tests.client.server_process import HttpServerProcess, parse_response
from tests.kits.constants import CLIENT_INFO, ENVELOPE, HANDSHAKE, HTTP_HEADERS, TIMEOUT
from tests.kits.survival.survival_kit import SECOND_WAY, run_server
from tests.kits.waiting import wait_until

resource = pytest.importorskip("resource")
HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
SHAKE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
TOOLS = """
from mcp_bridge import tool

@tool
async def tasks() -> int:
    "How many tasks there are."
    import asyncio
    import gc
    # `asyncio.all_tasks` does not list the tasks of the server.
    return sum(isinstance(item, asyncio.Task) and not item.done() for item in gc.get_objects())
"""


def test_500_concurrent_clients_are_all_served(tmp_path: Path) -> None:
    # All clients share one context: creating one takes longer than the calls of a client.
    context = ssl.create_default_context()
    # With 500 threads, a client may be idle for 10 seconds.
    settings = {"http": {"client_timeout": 300}}
    with run_server(SECOND_WAY, tmp_path, settings=settings) as server, server.keep_call_in_flight():
        every = threading.Barrier(500)
        with ThreadPoolExecutor(500) as clients:
            answers = list(clients.map(lambda number: run_client(server, number, every, context), range(500)))
        assert answers == [[f"{number} {call_number}" for call_number in range(2)] for number in range(500)]
    assert "Traceback" not in server.stderr


def run_client(server: HttpServerProcess, number: int, every: threading.Barrier, context: ssl.SSLContext) -> list[str]:
    """Call two tools as a client with a separate connection and session, and return their results."""
    headers = dict(server.headers)
    with httpx2.Client(base_url=server.base, timeout=300, verify=context, trust_env=False) as http:
        every.wait(300)
        answer = http.post("/mcp", json=SHAKE, headers=HTTP_HEADERS)
        assert answer.status_code == 200
        headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert http.post("/mcp", json=ready, headers=headers).status_code == 202
        texts = []
        for call_number in range(2):
            request = make_call(server, call_number + 1, "echo", text=f"{number} {call_number}")
            answer = http.post("/mcp", json=request, headers={**server.make_headers(request), **headers})
            texts.append(str(parse_response(answer)["result"]["content"][0]["text"]))
    return texts


def make_call(server: HttpServerProcess, number: int, name: str, **arguments: str) -> Json:
    """Return a request for a call."""
    meta = {"_meta": ENVELOPE} if server.way.stateless else {}
    params = {"name": name, "arguments": arguments, **meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def open_session(server: HttpServerProcess) -> str:
    """Open a session and return its id. Retry while the server has no room for it."""
    answers = []
    wait_until(
        lambda: answers.append(server.http.post("/mcp", json=SHAKE, headers=HTTP_HEADERS)) or answers[-1].is_success
    )
    return str(answers[-1].headers["mcp-session-id"])


def ping_session(server: HttpServerProcess, session: str) -> int:
    """Ping in a session, and return the HTTP status."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {**HTTP_HEADERS, "MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session}
    return server.http.post("/mcp", json=ping, headers=headers).status_code


def test_the_session_that_rests_longest_makes_room(tmp_path: Path) -> None:
    with run_server(SECOND_WAY, tmp_path, settings={"http": {"sessions": 4}}) as server:
        first, second, third = (open_session(server) for _ in range(3))
        assert server.get_text("echo", text="still here") == "still here"
        assert ping_session(server, first) == 200
        newcomer = open_session(server)
        assert [ping_session(server, item) for item in (second, first, third, newcomer)] == [404, 200, 200, 200]
        fifth = open_session(server)
        assert [ping_session(server, item) for item in (first, newcomer, fifth)] == [200, 200, 200]
        # The session of the test client itself has ended as well.
        assert server.post(json.dumps(SHAKE | {"method": "ping"}).encode()).status_code == 404
    assert "Traceback" not in server.stderr


def test_sessions_in_use_stay_and_a_new_one_is_rejected(tmp_path: Path) -> None:
    settings = {"http": {"sessions": 2}}
    with run_server(SECOND_WAY, tmp_path, settings=settings) as server, server.keep_call_in_flight():
        listener = open_session(server)
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": listener}
        with server.http.stream("GET", "/mcp", headers=headers) as stream:
            assert stream.status_code == 200
            for _ in range(3):
                assert server.http.post("/mcp", json=SHAKE, headers=HTTP_HEADERS).status_code == 503
        wait_until(lambda: server.http.post("/mcp", json=SHAKE, headers=HTTP_HEADERS).status_code == 200)
        assert ping_session(server, listener) == 404


def test_a_session_with_a_pending_response_stays(tmp_path: Path) -> None:
    with run_server(SECOND_WAY, tmp_path, TOOLS, {"http": {"sessions": 2}}) as server:
        session = server.open_session()
        headers = {**HTTP_HEADERS, "MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session}
        request = make_call(server, 1, "neighbour", token="its own")
        with server.http.stream("POST", "/mcp", json=request, headers=headers) as stream:
            event = next(line for line in stream.iter_lines() if line.startswith("id: ")).removeprefix("id: ")
            server.wait_for_stderr("begun its own")
        other_sessions = [open_session(server) for _ in range(3)]
        assert [ping_session(server, other) for other in other_sessions] == [404, 404, 200]
        assert server.http.post("/mcp", json=make_call(server, 9, "echo"), headers=server.headers).status_code == 404
        release = make_call(server, 2, "release", token="its own")
        assert server.http.post("/mcp", json=release, headers=headers).status_code == 200
        remaining_text = server.http.get("/mcp", headers={**headers, "Last-Event-ID": event}).text
        assert "neighbour its own" in remaining_text


def test_1000_abandoned_sessions_reject_no_client_and_leak_no_memory(tmp_path: Path) -> None:
    with run_server(SECOND_WAY, tmp_path, TOOLS, {"http": {"idle": "4s"}}) as server:
        before = abandon_sessions(server)
        assert abandon_sessions(server) < before * 1.1
    assert "Traceback" not in server.stderr


def abandon_sessions(server: HttpServerProcess) -> int:
    """Abandon 1,100 sessions while another is in use, and return the server's memory once they have ended."""
    with server.keep_call_in_flight():
        for number in range(1100):
            open_session(server)
            if number % 50 == 0:
                assert server.get_text("echo", text="active") == "active"
        assert ping_session(server, open_session(server)) == 200
    wait_until(lambda: count_tasks(server) < 100, 90)
    return server.rss


def count_tasks(server: HttpServerProcess) -> int:
    """Return the number of tasks of the server; pause first, because each question creates tasks too."""
    time.sleep(0.5)
    return int(server.get_text("tasks"))


def test_a_process_without_file_descriptors_recovers(tmp_path: Path) -> None:
    with (
        run_server(SECOND_WAY, tmp_path, settings={"http": {"client_timeout": "2s"}}) as server,
        server.keep_call_in_flight(),
    ):
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (60, 60))
        host, _, port = server.base.removeprefix("http://").rpartition(":")
        with contextlib.ExitStack() as opened:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    opened.enter_context(socket.create_connection((host, int(port)), timeout=TIMEOUT))
        with httpx2.Client(base_url=server.base, timeout=TIMEOUT) as http:
            wait_until(lambda: is_healthy(http))
        assert server.get_text("echo", text="still here") == "still here"
    assert len(server.stderr) < 100_000


def is_healthy(http: httpx2.Client) -> bool:
    """Return whether the server takes connections."""
    with contextlib.suppress(httpx2.TransportError):
        return http.get("/health").status_code == 200
    return False
