"""Threads, tasks and global state left behind by a tool delay neither other calls nor the shutdown."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.paths import KITS
from tests.kits.survival.fault_kit import REFERENCE, SharedServers, assert_still_serves, assert_unharmed, get_error_text
from tests.kits.survival.survival_kit import FIRST_WAY, ON_ONE_WAY, on_one_way, run_server

TOOLS_FILE = KITS / "survival" / "waiting_tools.py"
SHORT = {"timeout": 0.2}
LIMITS = {"threads": 2, "tools": {"holds": SHORT, "swallows": SHORT, "shields": SHORT, "never_gives_up": SHORT}}
CALLBACKS = ["a callback that exits", "a callback from a thread that exits", "a reader that exits"]
LOOP_FAULTS = ["stop", *CALLBACKS, "a handler that raises", "a task factory that raises"]
STUBBORN = ["shields", "never_gives_up"]
HTTP = Way("http", stateless=True)
LEFTOVERS = {
    "processes": ["a child", "a child in a session of its own", "a forked child"],
    "threads": ["a thread", "a daemon thread", "an atexit handler that raises"],
    "an atexit handler that ends": ["an atexit handler that ends"],
}
GLOBAL_CHANGES = {
    "threads": ["a thread that raises", "a thread that exits", "a thread with a KeyboardInterrupt"],
    "hooks": ["a trace function", "an excepthook that raises", "a threading.excepthook that raises"],
    "the interpreter": ["the locale", "a higher recursion limit", "warnings as errors"],
    "the working directory": ["the working directory"],
    "an empty environment": ["an empty environment"],
    "no module path": ["no module path"],
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield the servers of this module."""

    def start(way: Way) -> contextlib.AbstractContextManager[Any]:
        return run_server(way, tmp_path_factory.mktemp("waiting"), TOOLS_FILE, {"limits": LIMITS})

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


def occupy_threads(server: Any) -> None:
    """Occupy both threads with abandoned calls."""
    for token in ("first", "second"):
        text = get_error_text(server.get_result("holds", token=token))
        assert text == "Tool 'holds' did not finish within 0.2 seconds. It cannot be stopped, and may still finish."


def terminate(server: Any) -> int:
    """Send signals until the process ends, like a user who presses Ctrl-C again, and return the exit code."""
    while True:
        server.signal(signal.SIGTERM)
        try:
            return int(server.wait(1))
        except subprocess.TimeoutExpired:
            continue


@ON_ONE_WAY
def test_a_tool_that_blocks_the_event_loop_is_logged_with_the_time(server: Any) -> None:
    with assert_unharmed(server):
        assert server.get_text("blocks", seconds=1.5) == "slept"
    server.wait_for_stderr("'blocks' (at ")
    server.wait_for_stderr("blocked the event loop for 1.")


def test_calls_are_rejected_when_threads_never_end_while_async_tools_continue(tmp_path: Path) -> None:
    with run_server(FIRST_WAY, tmp_path, TOOLS_FILE, {"limits": LIMITS}) as server:
        with server.keep_call_in_flight():
            occupy_threads(server)
            assert "that timed out but still run: holds (2)" in get_error_text(server.get_result("echo", text="x"))
            assert server.get_text("swallows", times=0) == "went on"
        for token in ("first", "second"):
            assert server.get_text("free", token=token) == "freed"
        deadline = time.monotonic() + TIMEOUT
        while server.get_result("echo", text="x").get("isError"):
            assert time.monotonic() < deadline
        assert_still_serves(server)


def test_health_names_threads_that_never_end(tmp_path: Path) -> None:
    with run_server(HTTP, tmp_path, TOOLS_FILE, {"limits": LIMITS}) as server:
        assert server.http.get("/health").json() == {"status": "ok"}
        occupy_threads(server)
        assert server.http.get("/health").json() == {"status": "ok", "stuck": {"holds": 2}}


def test_health_shows_no_tool_without_a_token(tmp_path: Path) -> None:
    env, options = {"BRIDGE_TOKEN": "open sesame"}, ("--token-env", "BRIDGE_TOKEN")
    with run_server(HTTP, tmp_path, TOOLS_FILE, {"limits": LIMITS}, env, options) as server:
        token = {"Authorization": "Bearer open sesame"}
        server.headers |= token
        occupy_threads(server)
        assert server.http.get("/health").json() == {"status": "ok"}
        assert server.http.get("/health", headers={"Authorization": "Bearer open"}).json() == {"status": "ok"}
        assert server.http.get("/health", headers=token).json() == {"status": "ok", "stuck": {"holds": 2}}


@ON_ONE_WAY
@pytest.mark.parametrize("times", [1, 3])
def test_a_tool_that_swallows_its_cancellation_is_cancelled_again(server: Any, times: int) -> None:
    with assert_unharmed(server):
        assert server.get_text("swallows", times=times) == "went on"


@on_one_way("tool", STUBBORN)
def test_a_tool_that_ignores_cancellation_affects_only_its_own_call(server: Any, tool: str) -> None:
    with assert_unharmed(server):
        stubborn = server.send_call(tool, token=tool)
        # The timeout of this later call passes too, and cancels only this call.
        assert server.get_text("swallows", times=1) == "went on"
        assert server.get_text("echo", text="meanwhile") == "meanwhile"
        assert not stubborn.done()
        server.get_text("free", token=tool)
        assert stubborn.result(TIMEOUT)["result"]["content"][0]["text"] == "went on"


@on_one_way("tool", STUBBORN, smoke=["shields"])
def test_a_tool_that_ignores_every_cancellation_does_not_keep_the_server(way: Way, tmp_path: Path, tool: str) -> None:
    with run_server(way, tmp_path, TOOLS_FILE, {"limits": LIMITS}) as server:
        server.send_call(tool, token="never")
        server.get_text("echo", text="begun")
        assert terminate(server) == 0


@on_one_way("group", LEFTOVERS, smoke=["processes"])
def test_the_server_does_not_wait_for_threads_and_tasks_of_a_tool(way: Way, tmp_path: Path, group: str) -> None:
    with run_server(way, tmp_path, TOOLS_FILE) as server:
        with assert_unharmed(server):
            for thing in LEFTOVERS[group]:
                assert server.get_text("leaves", kind=thing) == "answered"
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


@on_one_way("kind", ["plain", "stubborn"], smoke=["plain"])
def test_a_task_that_a_tool_leaves_behind_does_not_keep_the_server(way: Way, tmp_path: Path, kind: str) -> None:
    with run_server(way, tmp_path, TOOLS_FILE) as server:
        with assert_unharmed(server):
            assert server.get_text("leaves_a_task", kind=kind) == "answered"
        assert terminate(server) == 0


@on_one_way("group", GLOBAL_CHANGES, smoke=["no module path"])
def test_a_tool_that_changes_global_state_does_not_stop_other_calls(way: Way, tmp_path: Path, group: str) -> None:
    with run_server(way, tmp_path, TOOLS_FILE) as server:
        for change in GLOBAL_CHANGES[group]:
            with assert_unharmed(server):
                assert server.get_result("alters", kind=change)["content"]


@on_one_way("what", LOOP_FAULTS, smoke=["stop"])
def test_the_event_loop_continues(server: Any, what: str) -> None:
    with assert_unharmed(server):
        assert server.get_text("on_the_loop", what=what) == "answered"


@ON_ONE_WAY
def test_the_event_loop_cannot_be_closed(server: Any) -> None:
    with assert_unharmed(server):
        assert REFERENCE.match(get_error_text(server.get_result("on_the_loop", what="close")))
