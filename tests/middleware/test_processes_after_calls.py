"""After a call that was cancelled or timed out, what it has started ends; what others have started stays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kits.processes.processes_kit import (
    PATIENCE,
    WAYS,
    Way,
    a_tick_goes_by,
    a_token,
    cancel,
    carrying,
    eventually,
    is_gone,
    is_there,
    spawning,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is best effort")
STDIO = [way for way in WAYS if way.transport == "stdio"]
HANDSHAKE_STDIO = STDIO[0]
LONG = {"timeout": "10m", "drain": "1s"}
HOW = [
    "popen", "shell", "setsid", "session", "double fork", "posix_spawn", "system", "deaf", "family", "stopped",
]  # fmt: skip


def timed_out(waiting: Any) -> None:
    """Wait until a call has."""
    assert waiting.result(PATIENCE)["result"]["_meta"]["mcp-bridge/code"] == "timeout"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One server for many calls: what earlier calls have left running must outlive the later ones too."""
    with spawning(HANDSHAKE_STDIO, tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.mark.parametrize(
    ("tool", "how"),
    [*(("holds", how) for how in HOW), *(("holds_the_call", how) for how in ("popen", "double fork", "family"))],
)
def test_what_a_call_has_started_ends_after_its_time_out(tool: str, how: str, shared: Any) -> None:
    token, other, before = a_token(), a_token(), len(shared.err)
    with shared.neighbour():
        assert shared.text("starts", how=how, token=other) == "started"
        is_there(other)
        a_tick_goes_by()
        waiting = shared.call(tool, how=how, token=token)
        shared.says(f"begun {token}")
        timed_out(waiting)
        is_gone(token)
        assert carrying(other)
        eventually(lambda: f"what the call of '{tool}' has left" in shared.err[before:])


@pytest.mark.parametrize("way", [way for way in WAYS if way != HANDSHAKE_STDIO], ids=str)
def test_over_every_transport_and_in_both_eras(way: Way, tmp_path: Path) -> None:
    """A call that ended well may leave its child until the bridge ends; one that timed out may not."""
    token, other, kept = a_token(), a_token(), a_token()
    with spawning(way, tmp_path) as server, server.neighbour():
        waiting = server.call("holds_the_call", how="popen", token=other)
        server.says(f"begun {other}")
        assert server.text("starts", how="setsid", token=kept) == "started"
        is_there(kept)
        timed_out(waiting)
        is_gone(other)
        timed_out(server.call("holds", how="popen", token=token))
        is_gone(token)
        assert carrying(kept), "the daemon of a call that ended well while another ran"
    is_gone(kept)


@pytest.mark.parametrize(("way", "tool"), [(STDIO[0], "holds"), (STDIO[1], "holds_the_call")], ids=str)
def test_what_a_call_has_started_ends_when_the_client_cancels_it(way: Way, tool: str, tmp_path: Path) -> None:
    token, other = a_token(), a_token()
    with spawning(way, tmp_path, limits=LONG) as server:
        server.call("holds_the_call", how="popen", token=other)
        is_there(other)
        with server.neighbour():
            number = server._request("ping", None, None)["id"] + 1
            server.call(tool, how="session", token=token)
            server.says(f"begun {token}")
            is_there(token)
            cancel(server, number)
            is_gone(token)
        assert carrying(other), "the child of a call that still runs"


@pytest.mark.parametrize(("first", "how"), [("ours", "popen"), ("theirs", "session")])
def test_the_child_of_a_neighbour_lives_whichever_began_first(first: str, how: str, tmp_path: Path) -> None:
    token, other = a_token(), a_token()
    with spawning(HANDSHAKE_STDIO, tmp_path, limits={**LONG, "tools": {"holds": {"timeout": "2s"}}}) as server:
        order = [("holds", token), ("holds_the_call", other)]
        calls = {}
        for tool, name in order if first == "ours" else reversed(order):
            calls[name] = server.call(tool, how="popen" if name == other else how, token=name)
            server.says(f"begun {name}")
        timed_out(calls[token])
        is_gone(token)
        assert carrying(other)
        assert not calls[other].done()


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_async_processes_are_told_apart(event_loop: str, tmp_path: Path) -> None:
    tokens = [a_token() for _ in range(4)]
    with spawning(HANDSHAKE_STDIO, tmp_path, limits=LONG, event_loop=event_loop) as server:
        numbers = {}
        for token in tokens:
            numbers[token] = server._request("ping", None, None)["id"] + 1
            server.call("awaits_process", token=token)
        for token in tokens:
            is_there(token)
        for token in tokens[:2]:
            cancel(server, numbers[token])
            is_gone(token)
        assert all(carrying(token) for token in tokens[2:])


def test_a_thread_that_waits_for_its_process_is_freed(tmp_path: Path) -> None:
    token = a_token()
    with spawning(
        HANDSHAKE_STDIO, tmp_path, limits={**LONG, "threads": 1, "tools": {"runs_*": {"timeout": "1s"}}}
    ) as server:
        timed_out(server.call("runs_process", token=token))
        server.says(f"freed {token} -15")
        eventually(lambda: server.text("starts", how="popen", token=a_token()) == "started")  # the only thread is free


def test_what_a_thread_starts_after_its_call_ends_too(tmp_path: Path) -> None:
    token = a_token()
    with spawning(HANDSHAKE_STDIO, tmp_path) as server:
        timed_out(server.call("runs_again", token=token))
        server.says(f"again {token} 2")
        is_gone(token)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    token, later = a_token(), a_token()
    with spawning(HANDSHAKE_STDIO, tmp_path, processes={"end_after_call": False}) as server:
        timed_out(server.call("holds_the_call", how="popen", token=token))
        assert server.text("starts", how="popen", token=later) == "started"
        assert carrying(token)
    is_gone(token)


def test_workers_of_isolation_are_left_alone(tmp_path: Path) -> None:
    own = [{"type": "python", "path": "own_tools.py", "isolation": {"mode": "process", "tools": ["starts", "runs_*"]}}]
    token = a_token()
    with spawning(HANDSHAKE_STDIO, tmp_path, sources=own) as server:
        waiting = server.call("holds_the_call", how="popen", token=token)
        server.says(f"begun {token}")
        assert server.text("starts", how="popen", token=a_token()) == "started", "a worker is begun meanwhile"
        timed_out(waiting)
        is_gone(token)
        assert server.text("starts", how="popen", token=a_token()) == "started"
        assert "worker" not in server.err
