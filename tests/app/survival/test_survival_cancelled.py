"""1,000 cancelled calls leave no task, no memory and no used slot behind."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.client.raw_client import Json
from tests.client.server_process import HttpServerProcess, ServerProcess, StdioServerProcess, Way
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.survival.survival_kit import FIRST_WAY, WAYS, run_server
from tests.kits.waiting import wait_until

TOOLS = """
import asyncio
import gc
import anyio
from mcp_bridge import tool

begun = ended = 0

@tool
async def waits() -> str:
    "Wait until it is cancelled."
    global begun, ended
    begun += 1
    try:
        await anyio.sleep_forever()
    finally:
        ended += 1
    return "never"

@tool
async def state() -> dict:
    "How many calls have begun, how many of them have ended, how many tasks there are."
    # `asyncio.all_tasks` does not list the tasks of the server.
    tasks = [item for item in gc.get_objects() if isinstance(item, asyncio.Task) and not item.done()]
    return {"begun": begun, "ended": ended, "tasks": len(tasks)}
"""
SETTINGS = {"limits": {"concurrency": 1}}
MANY = 1000
ROUNDS = 8
"""How often they are given up until memory has to have settled: allocators take a while."""


@pytest.mark.parametrize("way", [FIRST_WAY, *(way for way in WAYS if way.transport == "http")], ids=str)
def test_1000_cancelled_calls_leave_nothing_behind(way: Way, tmp_path: Path) -> None:
    with run_server(way, tmp_path, TOOLS, SETTINGS) as server:
        cancel_calls = cancel_calls_over_http if way.transport == "http" else cancel_calls_over_stdio
        tasks = wait_until_settled(server, 50)["tasks"]
        sizes: list[int] = []
        # Memory that a cancelled call leaves behind would grow each time.
        while len(sizes) < 2 or sizes[-1] > sizes[-2] * 1.02:
            assert len(sizes) < ROUNDS, sizes
            cancel_calls(server, MANY)
            after = wait_until_settled(server, tasks)
            sizes.append(server.rss)
        assert after["begun"] == after["ended"] > 0
        assert server.get_text("echo", text="there is a place") == "there is a place"
    assert "Traceback" not in server.stderr


def wait_until_settled(server: Any, tasks: int) -> Json:
    """Wait until all calls and their tasks have ended, and return the server's state."""
    states: list[Json] = []

    def is_quiet() -> bool:
        states.append(json.loads(server.get_text("state")))
        return bool(states[-1]["begun"] == states[-1]["ended"] and states[-1]["tasks"] <= tasks + 2)

    wait_until(is_quiet)
    return states[-1]


def cancel_calls_over_stdio(server: StdioServerProcess, many: int) -> None:
    """Call and cancel: of twenty calls one runs and the others wait, then all are cancelled."""
    for first in range(0, many, 20):
        numbers = [f"{os.urandom(4).hex()}-{first + number}" for number in range(20)]
        for number in numbers:
            server.send({**request(server), "id": number})
        for number in numbers:
            server.send(make_cancellation(server, number))


def cancel_calls_over_http(server: HttpServerProcess, many: int) -> None:
    """Call and disconnect, twenty at a time. In a session, where this does not cancel calls, cancel them before."""
    host, _, port = server.base.removeprefix("http://").rpartition(":")
    for first in range(0, many, 20):
        with contextlib.ExitStack() as opened:
            numbers = [f"{os.urandom(4).hex()}-{first + number}" for number in range(20)]
            connections = []
            for number in numbers:
                connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=TIMEOUT))
                connection.sendall(make_post(server, {**request(server), "id": number}))
                connections.append(connection)
            for connection in connections if not server.way.stateless else []:
                # The call is known now, so that it can be cancelled.
                assert b"200 OK" in connection.recv(65536)
            for number in numbers if not server.way.stateless else []:
                assert server.post(json.dumps(make_cancellation(server, number)).encode()).status_code == 202


def request(server: ServerProcess) -> Json:
    """Return a call of the waiting tool."""
    meta = {"_meta": ENVELOPE} if server.way.stateless else {}
    return {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "waits", "arguments": {}, **meta}}


def make_cancellation(server: ServerProcess, number: str) -> Json:
    """Return the notification that cancels a call."""
    meta = {"_meta": ENVELOPE} if server.way.stateless else {}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number, **meta}}


def make_post(server: HttpServerProcess, message: Json) -> bytes:
    """Return the bytes of an HTTP request that posts a message."""
    body = json.dumps(message).encode()
    lines = [f"{name}: {value}" for name, value in server.make_headers(message).items()]
    head = ["POST /mcp HTTP/1.1", "Host: localhost", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body
