"""The worker processes of a source: sharing, environment variables, and restarts after a crash."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import get_code
from tests.kits.survival.isolation_live import (
    SMALL,
    count_list_changes,
    list_names,
    list_workers,
    read_pids,
    run_isolated_server,
)
from tests.kits.survival.survival_kit import FIRST_WAY, SECOND_WAY, WAYS
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")


def test_with_one_worker_calls_wait_in_turn(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 1}) as server:
        first = server.send_call("stays", token="first")
        (worker,) = read_pids(server, "first")
        other_calls = [server.send_call("pid") for _ in range(5)]
        with server.keep_call_in_flight():
            assert not any(call.done() for call in other_calls)
        (tmp_path / "first").touch()
        assert first.result(TIMEOUT)
        assert {call.result(TIMEOUT)["result"]["content"][0]["text"] for call in other_calls} == {str(worker)}


def test_a_call_of_a_call_never_waits_for_its_own_caller(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 1}) as server:
        outer, inner = json.loads(server.get_text("invokes", name="pid"))
        assert outer != inner
        _, *several = json.loads(server.get_text("invokes", name="pid", times=4))
        assert any(text.isdigit() for text in several)
        assert {text for text in several if not text.isdigit()} <= {"overloaded"}


def test_calls_that_call_themselves_are_rejected_at_some_depth(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path) as server, server.keep_call_in_flight():
        assert server.get_text("recurses_through_bridge") == "overloaded"
        # The lines of the log arrive later.
        assert wait_until(lambda: len(list_workers(server)) <= 2 * server.stderr.count("level "))
        assert server.stderr.count("level ") <= 4


def test_a_worker_has_the_usual_variables_and_those_in_the_settings(tmp_path: Path) -> None:
    variables = {"SECRET_KEY": "s3cret", "NAMED": "seen", "PYTHONBREAKPOINT": "x"}
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "env": ["NAMED", "MISSING"]}, env=variables) as server:
        environment = server.get_result("environment")["structuredContent"]
        assert environment["NAMED"] == "seen"
        assert environment["PATH"] == os.environ["PATH"]
        usual = {"HOME", "PATH", "LANG", "TERM", "USER", "LC_ALL", "LC_CTYPE", "PYTHONPATH", "TMPDIR", "TZ", "NAMED"}
        assert set(environment) <= usual


def test_tools_that_fit_a_pattern_run_in_workers_and_the_others_in_the_bridge(tmp_path: Path) -> None:
    tools = """
import os
from mcp_bridge import tool

@tool
def risky_pid() -> int:
    return os.getpid()

@tool
def risky_end() -> None:
    os._exit(1)

@tool
def safe_pid() -> int:
    return os.getpid()
"""
    with (
        run_isolated_server(FIRST_WAY, tmp_path, {"tools": ["risky_*"]}, tools) as server,
        server.keep_call_in_flight(),
    ):
        assert int(server.get_text("safe_pid")) == server.pid
        assert int(server.get_text("risky_pid")) != server.pid
        assert get_code(server.get_result("risky_end")) == "tool_crashed"
        assert int(server.get_text("risky_pid")) != server.pid
        assert int(server.get_text("safe_pid")) == server.pid


def test_a_pattern_without_a_matching_tool_is_reported(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, {"tools": ["pid", "riksy_*"]}) as server:
        assert int(server.get_text("pid")) != server.pid
        server.wait_for_stderr("isolation: no tool matches 'riksy_*'")


GOOD = """
import os
from mcp_bridge import tool

@tool
def pid() -> int:
    return os.getpid()

@tool
def die():
    os._exit(1)
"""


def test_a_source_that_crashes_at_import_fails_alone_and_is_started_again(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, tools="import os\nos._exit(5)\n") as server:
        server.wait_for_stderr("the worker ended its process with exit code 5 before its first offer")
        assert server.get_text("echo", text="served") == "served"
        assert "Traceback" not in server.stderr
        (tmp_path / "own_tools.py").write_text(GOOD)
        assert wait_until(lambda: "'pid'" in str(server.send_request("tools/list", {}).result(TIMEOUT)))
        assert int(server.get_text("pid")) != server.pid


def test_a_source_that_starts_to_crash_is_unavailable_until_it_is_fixed(tmp_path: Path) -> None:
    with (
        run_isolated_server(SECOND_WAY, tmp_path, {**SMALL, "workers": 1}, GOOD) as server,
        server.keep_call_in_flight(),
    ):
        first = server.get_text("pid")
        (tmp_path / "own_tools.py").write_text("import os\nsecret = 'path-and-secret'\nos._exit(4)\n")
        assert get_code(server.get_result("die")) == "tool_crashed"
        server.wait_for_stderr("no worker can be started (next attempt in 0.5 s)")
        result = server.get_result("pid")
        assert get_code(result) == "tool_unavailable"
        assert str(tmp_path) not in str(result)
        server.wait_for_stderr("next attempt in 1 s")
        (tmp_path / "own_tools.py").write_text(GOOD)
        assert wait_until(lambda: get_code(server.get_result("pid")) is None)
        assert server.get_text("pid") != first


def test_an_edit_reaches_clients_and_calls(tmp_path: Path) -> None:
    with run_isolated_server(WAYS[0], tmp_path, {**SMALL, "workers": 2}, GOOD, options=["--reload"]) as server:
        first = server.get_text("pid")
        before = count_list_changes(server)
        new_text = GOOD.replace("def die():", "def pid_again() -> int:\n    return os.getpid()\n\n@tool\ndef die():")
        (tmp_path / "own_tools.py").write_text(new_text)
        wait_until(lambda: "pid_again" in list_names(server))
        calls = [server.send_call("pid_again") for _ in range(8)]
        assert {get_code(call.result(TIMEOUT)["result"]) for call in calls} == {None}
        (tmp_path / "own_tools.py").write_text(new_text.replace("return os.getpid()", "return -1"))
        assert wait_until(lambda: server.get_text("pid") == "-1")
        assert first != "-1"
        wait_until(lambda: count_list_changes(server) > before)


def test_forty_crashes_leave_nothing_behind(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, {**SMALL, "workers": 4}) as server:
        for _ in range(5):
            server.get_result("wreck", kind="os._exit")
        wait_until(lambda: server.get_text("pid"))
        descriptors = Path(f"/proc/{server.pid}/fd")
        before, memory = len(list(descriptors.iterdir())), server.rss
        for _ in range(10):
            together = [server.send_call("wreck", kind="os._exit") for _ in range(4)]
            assert {get_code(item.result(2 * TIMEOUT)["result"]) for item in together} == {"tool_crashed"}
        server.get_text("pid")
        wait_until(lambda: len(list(descriptors.iterdir())) <= before + 3 * 4)
        assert server.rss < memory + 16 * 1024 * 1024
        wait_until(lambda: len(list_workers(server)) <= 2 * 5)


FLOOD = """
import logging
from mcp_bridge import CallContext, tool

@tool
async def floods(ctx: CallContext) -> str:
    for number in range(3_000):
        await ctx.report_progress(number, message="x" * 1000)
        await ctx.log("error", "x" * 1000)
        logging.getLogger("flood").error("x" * 1000)
    return "done"
"""


def test_a_flood_of_notices_leaves_memory_and_neighbours_as_they_were(tmp_path: Path) -> None:
    with run_isolated_server(FIRST_WAY, tmp_path, SMALL, FLOOD) as server, server.keep_call_in_flight():
        before = server.rss
        waiting = server.send_call("floods")
        while not waiting.done():
            assert server.get_text("echo", text="beside") == "beside"
            assert server.rss < before + 100 * 1024 * 1024
        assert waiting.result()["result"]["content"][0]["text"] == "done"
