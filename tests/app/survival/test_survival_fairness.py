"""Hanging calls of one tool or client do not delay the calls of others."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from tests.client.server_process import HttpServerProcess, Way
from tests.kits.constants import HANDSHAKE, HTTP_HEADERS, TIMEOUT
from tests.kits.survival.survival_kit import FIRST_WAY, SECOND_WAY, run_server

TOOLS = """
import threading
import anyio
from mcp_bridge import tool

@tool
async def hangs() -> str:
    await anyio.sleep_forever()

@tool
def blocks() -> str:
    threading.Event().wait()

@tool
def answers() -> str:
    return "answered"
"""
LATEST = 20.0
"""Seconds for a call that takes 1 on an idle machine; the calls that hang do so for a minute and more."""


@contextmanager
def serve(way: Way, folder: Path, **limits: Any) -> Iterator[Any]:
    settings = {"limits": {"timeout": 600, "drain": 0.1, **limits}}
    with run_server(way, folder, TOOLS, settings) as server:
        yield server


def leave_call(server: HttpServerProcess, number: int, session: str, tool: str = "hangs") -> None:
    """Call a tool in a session, and disconnect when the stream of the response begins."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool}})
    headers = {**HTTP_HEADERS, "MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session, "Host": server.base[7:]}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": len(body)}.items())
    address = urlsplit(server.base)
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("tool", ["hangs", "blocks"])
def test_a_call_gets_its_result_during_1000_hanging_calls_of_another_tool(tmp_path: Path, tool: str) -> None:
    with serve(FIRST_WAY, tmp_path) as server:
        hanging = [server.send_call(tool) for _ in range(1000)]
        start = time.monotonic()
        assert server.send_call("answers").result(LATEST)["result"]["content"][0]["text"] == "answered"
        assert server.send_call("echo", text="async").result(LATEST)["result"]["content"][0]["text"] == "async"
        print(f"answered after {time.monotonic() - start:.3f} s, with {server.rss >> 20} MiB")
        assert not any(call.done() for call in hanging)


@pytest.mark.parametrize("tool", ["hangs", "blocks"])
def test_a_client_is_served_during_1000_hanging_calls_of_another_client(tmp_path: Path, tool: str) -> None:
    with serve(SECOND_WAY, tmp_path) as server:
        hog = server.open_session()
        with ThreadPoolExecutor(50) as threads:
            list(threads.map(lambda number: leave_call(server, number, hog, tool), range(1000)))
        start = time.monotonic()
        assert server.send_call("answers").result(LATEST)["result"]["content"][0]["text"] == "answered"
        assert server.send_call("echo", text="async").result(LATEST)["result"]["content"][0]["text"] == "async"
        print(f"answered after {time.monotonic() - start:.3f} s, with {server.rss >> 20} MiB")


def test_slots_of_disconnected_clients_are_free_after_ten_seconds(tmp_path: Path) -> None:
    with serve(SECOND_WAY, tmp_path, concurrency=4) as server:
        for number in range(4):
            leave_call(server, number, server.open_session(), tool=("hangs", "blocks")[number % 2])
        start = time.monotonic()
        assert server.send_call("answers").result(10 + LATEST)["result"]["content"][0]["text"] == "answered"
        print(f"answered after {time.monotonic() - start:.3f} s")


def test_calls_that_hang_leave_no_more_than_a_bounded_queue(tmp_path: Path) -> None:
    with serve(FIRST_WAY, tmp_path, concurrency=4) as server:
        calls = [server.send_call("hangs") for _ in range(1040)]
        until = time.monotonic() + TIMEOUT
        # 3 calls run and 1,024 wait.
        while sum(call.done() for call in calls) < 13:
            assert time.monotonic() < until
            time.sleep(0.01)
        codes = {call.result()["result"]["_meta"]["mcp-bridge/code"] for call in calls if call.done()}
        assert codes == {"overloaded"}
        assert server.send_call("echo", text="async").result(LATEST)["result"]["content"][0]["text"] == "async"
