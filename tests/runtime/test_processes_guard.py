"""When the bridge ends, everything below it ends, however it ends; its ways in and out are as they were without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.processes.processes_kit import (
    find_processes,
    get_command,
    get_pids,
    make_token,
    run_spawning_server,
    start_server,
    wait_until_gone,
)
from tests.kits.survival.survival_kit import WAYS
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
STDIO = next(way for way in WAYS if way.transport == "stdio")
STATELESS = next(way for way in WAYS if way.transport == "http" and way.stateless)
LEFT = ["popen", "setsid", "double fork", "deaf", "family", "stopped"]
SLOW = "import time, sys\nprint('importing', file=sys.stderr, flush=True)\ntime.sleep(100)\n"


def leave_processes(server: object, *ways: str) -> list[str]:
    """Have a call leave processes behind in several ways, and return their tokens."""
    tokens = []
    for how in ways:
        tokens.append(make_token())
        assert server.get_text("starts", how=how, token=tokens[-1]) == "started"  # type: ignore[attr-defined]
        number = 2 if how == "family" else 1
        wait_until(lambda token=tokens[-1], number=number: len(find_processes(token)) >= number)
    return tokens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with settings and a tool file with a slow import."""
    (tmp_path / "tools.py").write_text(SLOW)
    (tmp_path / "mcp-bridge.json").write_text(json.dumps({"sources": [{"type": "python", "path": "tools.py"}]}))
    return tmp_path


@pytest.mark.parametrize(
    ("way", "how"), [(STDIO, "SIGTERM"), (STDIO, "SIGINT"), (STDIO, "SIGHUP"), (STATELESS, "SIGTERM")], ids=str
)
def test_no_process_remains_after_a_signal(way: Way, how: str, tmp_path: Path) -> None:
    with run_spawning_server(way, tmp_path) as server:
        tokens, below = leave_processes(server, *LEFT), get_pids(server)
        server.signal(getattr(signal, how))
        assert server.wait() == 0
        assert not [token for token in tokens if find_processes(token)], "it has waited for that"
        assert not any(map(psutil.pid_exists, below))


def test_no_process_remains_after_the_end_of_input(tmp_path: Path) -> None:
    with run_spawning_server(STDIO, tmp_path) as server:
        tokens = leave_processes(server, *LEFT)
        server.close_input()
        assert server.wait() == 0
        assert not [token for token in tokens if find_processes(token)]


@pytest.mark.parametrize(
    ("way", "whom"), [(STDIO, "front"), (STDIO, "reaper"), (STDIO, "bridge"), (STATELESS, "front")], ids=str
)
def test_no_process_remains_after_a_kill_of_any_process(whom: str, way: Way, tmp_path: Path) -> None:
    with run_spawning_server(way, tmp_path) as server:
        tokens, three = leave_processes(server, *LEFT), get_pids(server)
        os.kill(three[("front", "reaper", "bridge").index(whom)], signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        for token in tokens:
            wait_until_gone(token)
        wait_until(lambda: not any(map(psutil.pid_exists, three)))


def test_no_process_remains_after_a_kill_of_the_group(tmp_path: Path) -> None:
    with run_spawning_server(STDIO, tmp_path) as server:
        tokens, three = leave_processes(server, "setsid", "session", "double fork"), get_pids(server)
        assert os.getpgid(three[1]) != os.getpgid(three[0]) == os.getpgid(three[2])
        # The group is that of the test too.
        for pid in (three[0], three[2]):
            os.kill(pid, signal.SIGKILL)
        for token in tokens:
            wait_until_gone(token)


def test_a_signal_to_the_whole_group_counts_once_and_drains(tmp_path: Path) -> None:
    with run_spawning_server(STDIO, tmp_path, limits={"drain": "5m", "timeout": "5m"}) as server:
        token = make_token()
        waiting = server.send_call("neighbour", token=token)
        server.wait_for_stderr(f"begun {token}")
        for pid in (server.process.pid, server.pid):
            os.kill(pid, signal.SIGTERM)
        error = wait_until(lambda: server.send_request("tools/list").result(TIMEOUT).get("error"))
        assert error["code"] == -32000
        assert not waiting.done(), "a second signal would have ended it"
        # It is another signal, because two equal ones may arrive as one.
        server.signal(signal.SIGINT)
        assert server.wait() == 0


def test_the_exit_code_and_the_streams_of_the_bridge_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "mcp-bridge.json").write_text("{")
    process = subprocess.run(get_command(), cwd=tmp_path, capture_output=True, timeout=TIMEOUT, check=False)
    bare = subprocess.run(get_command("--no-guard"), cwd=tmp_path, capture_output=True, timeout=TIMEOUT, check=False)
    assert process.returncode == bare.returncode == 2
    assert (process.stdout, process.stderr) == (bare.stdout, bare.stderr)


@pytest.mark.parametrize("how", ["SIGQUIT", "SIGUSR1", "SIGABRT"])
def test_the_guard_ends_by_the_signal_of_the_bridge(how: str, tmp_path: Path) -> None:
    number = getattr(signal, how)
    with run_spawning_server(STDIO, tmp_path) as server:
        (token,) = leave_processes(server, "session")
        os.kill(server.pid if how == "SIGABRT" else server.process.pid, number)
        assert server.wait() == -number
        wait_until_gone(token)


def test_a_starting_bridge_ends_at_its_first_signal(folder: Path) -> None:
    with start_server(folder) as server:
        assert server.stderr is not None
        assert server.stderr.readline() == b"importing\n"
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT) == 0


def test_the_output_ends_with_the_bridge_although_its_children_ignore_signals(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', 'import signal, time;"
        " signal.signal(15, 1); time.sleep(1000)'], stdin=-3, stdout=-3, stderr=-3)\n"
    )
    with start_server(tmp_path, "tools.py", stdin=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        assert server.stdout.read() == b""
        assert server.poll() is None, "the guard sees to the child still"
        assert server.wait(TIMEOUT) in {0, 1}


def test_without_a_guard_an_orderly_shutdown_ends_the_children(tmp_path: Path) -> None:
    with run_spawning_server(STDIO, tmp_path, "--no-guard") as server:
        assert server.pid == server.process.pid
        tokens = leave_processes(server, "popen", "session", "deaf", "family")
        server.close_input()
        assert server.wait() == 0
        for token in tokens:
            wait_until_gone(token)


GROUP = """
import os, signal, subprocess, sys
rests = subprocess.Popen(["sleep", "1000"])
os.kill(rests.pid, signal.SIGSTOP)
os.waitid(os.P_PID, rests.pid, os.WSTOPPED | os.WNOWAIT)
code = subprocess.run([sys.executable, "-m", "mcp_bridge", "serve"], stdin=subprocess.DEVNULL).returncode
rests.kill()
print("still here", code)
"""


def test_the_end_of_a_bridge_sends_no_hangup_to_a_group_with_a_stopped_process(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("from mcp_bridge import tool\n\n@tool\ndef one() -> int: return 1\n")
    process = subprocess.run(
        [sys.executable, "-c", GROUP], cwd=tmp_path, capture_output=True, text=True, timeout=90, start_new_session=True
    )
    assert (process.returncode, process.stdout) == (0, "still here 0\n")


def test_servers_that_end_immediately_leave_no_process(tmp_path: Path) -> None:
    token = make_token()
    (tmp_path / "tools.py").write_text(
        "import subprocess, sys\nfrom mcp_bridge import tool\n@tool\ndef nothing() -> None:\n    'N.'\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)', '{token}'],"
        " start_new_session=True)\n"
    )
    for _ in range(3):
        process = subprocess.run(
            get_command("tools.py"), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT
        )
        assert process.returncode == 0, process.stderr
        assert not find_processes(token)


def test_the_guard_is_small(tmp_path: Path) -> None:
    with run_spawning_server(STDIO, tmp_path) as server:
        front, reaper, _ = map(psutil.Process, get_pids(server))
        for process in (front, reaper):
            assert process.memory_info().rss < 40_000_000
            assert process.num_threads() == 1
            assert sum(process.cpu_times()[:2]) < 1
            assert not {link for link in map(os.readlink, list_open_files(process.pid)) if link.startswith("pipe:")}


def list_open_files(pid: int) -> list[str]:
    """Return the open files of a process."""
    return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
