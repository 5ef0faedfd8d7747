"""Faults of a tool in a worker process affect only its own call."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import get_code
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.isolation_live import (
    SMALL,
    find_children,
    get_bridge_pid,
    is_gone,
    keep_neighbours_in_flight,
    list_workers,
    read_pids,
    run_isolated_server,
)
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")

CRASHES = {
    "os._exit": "exit code 7",
    "segfault": "SIGSEGV",
    "abort": "SIGABRT",
    "SIGKILL": "SIGKILL",
    "SIGKILL of its group": "SIGKILL",
    "SIGKILL of its parent": "SIGKILL",
    "memory": "needed more than 512 MiB of memory",
    "memory in small pieces": "",
    "every descriptor closed": "",
    "garbage in every descriptor": "",
    "half a line in every descriptor": "",
    "recursion in C": "",
}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield a server for all faults of its workers. Calls of `wreck_async` have a timeout of one second."""

    def start(way: Way) -> contextlib.AbstractContextManager[Any]:
        limits = {"tools": {"wreck_async": {"timeout": "1s"}}}
        return run_isolated_server(way, tmp_path_factory.mktemp("isolation"), limits=limits)

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


@pytest.fixture
def server(workers: SharedServers) -> Any:
    """Return a running server."""
    return workers.server(FIRST_WAY)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Run the same server with more memory for its workers."""

    def start(way: Way) -> contextlib.AbstractContextManager[Any]:
        return run_isolated_server(way, tmp_path_factory.mktemp("roomy"), {**SMALL, "memory": "2 GiB"})

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


@pytest.mark.parametrize(("way", "where"), [(FIRST_WAY, "wreck"), (SECOND_WAY, "wreck_async")], ids=["stdio", "http"])
def test_a_process_that_ends_fails_only_one_call(way: Way, where: str, tmp_path: Path) -> None:
    with run_isolated_server(way, tmp_path) as server, keep_neighbours_in_flight(server):
        bridge = get_bridge_pid(server)
        for ending in ("os._exit", "segfault", "SIGKILL"):
            result = server.get_result(where, kind=ending)
            assert get_code(result) == "tool_crashed", (ending, result)
            assert CRASHES[ending] in result["content"][0]["text"]
            assert int(server.get_text("pid")) != bridge
        assert get_bridge_pid(server) == bridge == server.pid


@pytest.mark.parametrize("ending", CRASHES)
def test_any_end_of_a_process_is_reported_and_the_next_call_works(server: Any, ending: str) -> None:
    with keep_neighbours_in_flight(server):
        result = server.get_result("wreck", kind=ending)
        # Newer versions of Python also count the recursion in C.
        if ending != "recursion in C" or result.get("isError"):
            assert get_code(result) in ("tool_crashed", "internal_error"), result
            assert ending == "recursion in C" or get_code(result) == "tool_crashed"
        assert CRASHES[ending] in result["content"][0]["text"]
        assert int(server.get_text("pid")) != server.pid
        assert get_bridge_pid(server) == server.pid


LASTING = [
    "a blocked loop",
    "the GIL",
    "a stop of its own",
    "a stop of its group",
    "an endless line in every descriptor",
]


@pytest.mark.parametrize("ending", LASTING)
def test_a_call_that_never_returns_is_killed_at_the_timeout(server: Any, ending: str) -> None:
    with keep_neighbours_in_flight(server):
        result = server.get_result("wreck_async", kind=ending)
        assert get_code(result) == "timeout", result
        wait_until(lambda: server.get_text("pid"))
        assert get_bridge_pid(server) == server.pid


def test_a_stuck_thread_ends_soon_after_the_timeout(tmp_path: Path) -> None:
    limits = {"tools": {"sync_sleeps": {"timeout": "4s"}}}
    with (
        run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 3}, limits=limits) as server,
        keep_neighbours_in_flight(server),
    ):
        result = server.get_result("sync_sleeps", token="stuck")
        assert get_code(result) == "timeout"
        (stuck,) = read_pids(server, "stuck")
        wait_until(lambda: is_gone(stuck))
        server.wait_for_stderr("its worker is killed")


def test_a_cancelled_call_that_ends_in_time_keeps_its_worker(tmp_path: Path) -> None:
    limits = {"tools": {"async_sleeps": {"timeout": "4s"}}}
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 1}, limits=limits) as server:
        assert get_code(server.get_result("async_sleeps", token="polite")) == "timeout"
        (worker,) = read_pids(server, "polite")
        assert int(server.get_text("pid")) == worker
        assert "its worker is killed" not in server.stderr


@pytest.mark.parametrize(("name", "keeps"), [("async_sleeps", True), ("sync_sleeps", False)])
def test_a_cancelled_call_frees_its_worker(name: str, keeps: bool, tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 1}) as server:
        request = server.make_request("tools/call", {"name": name, "arguments": {"token": "given-up"}})
        server.send(request)
        (worker,) = read_pids(server, "given-up")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}})
        assert (int(server.get_text("pid")) == worker) is keeps
        assert is_gone(worker) is not keeps


ANSWERED = {
    "an endless print": None,
    "200 MB": "result_too_large",
    "too many files": "internal_error",
    "a large file": "internal_error",
    "signals": None,
    "chdir": None,
    "environment": None,
    "threads": None,
}


@pytest.mark.parametrize("excess", ANSWERED)
def test_calls_beyond_a_limit_do_not_affect_later_calls(roomy: SharedServers, excess: str) -> None:
    server = roomy.server(FIRST_WAY)
    with keep_neighbours_in_flight(server):
        before = (os.readlink(f"/proc/{server.pid}/cwd"), server.rss)
        result = server.get_result("wreck", kind=excess)
        assert get_code(result) == ANSWERED[excess], str(result)[:500]
        assert server.get_text("pid")
        assert os.readlink(f"/proc/{server.pid}/cwd") == before[0]
        assert server.rss < before[1] + 300 * 1024 * 1024
        if excess == "a large file":
            assert (server.folder / "large.bin").stat().st_size <= 8 * 1024 * 1024
        # The changes that the tool made end with its process.
        assert get_code(server.get_result("wreck", kind="os._exit")) == "tool_crashed"


def test_a_task_that_tries_to_end_the_process_does_as_little_as_in_the_bridge(server: Any) -> None:
    with keep_neighbours_in_flight(server):
        result = server.get_result("exits_in_child_task")
        assert get_code(result) in (None, "internal_error", "tool_crashed")
        assert server.get_text("pid")


@pytest.mark.parametrize("dies", [True, False])
def test_processes_of_a_worker_end_with_it(server: Any, dies: bool) -> None:
    token = os.urandom(4).hex()
    with keep_neighbours_in_flight(server):
        result = server.get_result("leaves_children", token=token, dies=dies)
        assert get_code(result) == ("tool_crashed" if dies else None)
        worker, *children = read_pids(server, token)
        if not dies:
            assert find_children(token)
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: all(map(is_gone, children)) and not find_children(token))
        assert server.get_text("pid")


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGKILL"])
def test_no_process_remains_when_the_bridge_ends(how: str, tmp_path: Path) -> None:
    token = os.urandom(4).hex()
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 3}, limits={"drain": "0.3s"}) as server:
        server.get_result("leaves_children", token=token, dies=False)
        server.send_call("wreck_async", kind="the GIL")
        server.send_call("stays", token="never")
        pids = [*read_pids(server, "never"), *read_pids(server, token), *list_workers(server)]
        if how == "end of input":
            server.close_input()
        else:
            server.signal(getattr(signal, how))
        server.wait()
        wait_until(lambda: all(map(is_gone, pids)) and not find_children(token))


@ON_BOTH_WAYS
def test_a_call_in_a_worker_is_answered_while_the_bridge_drains(way: Way, tmp_path: Path) -> None:
    with run_isolated_server(way, tmp_path) as server:
        waiting = server.send_call("stays", token="drained")
        read_pids(server, "drained")
        server.signal(signal.SIGTERM)
        (tmp_path / "drained").touch()
        assert waiting.result(TIMEOUT)["result"]["content"][0]["text"] == "stayed drained"
        assert server.wait() == 0
