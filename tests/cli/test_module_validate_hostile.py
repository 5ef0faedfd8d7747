"""`module validate` and hostile modules: one rule is broken, and no process is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.kits.cli.cli_running import CommandResult, RunHere, run
from tests.kits.cli.validated_modules import write_module, write_project
from tests.kits.constants import TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the hostile modules are POSIX's")
CALL = '        text = input.get("text")\n'
IMPORT, MOUNTING = "it_can_be_imported", "it_mounts_what_its_type_requires"
CALLS = "valid_arguments_give_a_result_and_are_not_changed"
STDOUT = "it_prints_nothing_to_stdout"
GARBLES = """for fd in range(3, 30):
            try:
                os.write(fd, b'{}\\n')
            except OSError:
                pass"""
MOUNT = "async def mount(coordinator, config):\n"


def check(run_here: RunHere, folder: Path, code: str, timeout: str = "20") -> CommandResult:
    """Check a tool module with this code."""
    return run_here("module", "validate", write_project(folder / "sample", code), "--json", "--timeout", timeout)


def write_hostile_module(place: str, does: str) -> str:
    """Return the code of a valid tool with statements at its import, in its mount, or in its call."""
    if place == "import":
        return write_module("tool").replace("logger = ", f"{does}\nlogger = ")
    old, indent = (MOUNT, "    ") if place == "mount" else (CALL, "        ")
    return write_module("tool").replace(old, f"{old}{indent}{does}\n")


def get_reason(result: CommandResult, rule: str) -> str:
    return next(str(outcome["reason"]) for outcome in result.json["rules"] if outcome["rule"] == rule)


@pytest.mark.parametrize(
    ("place", "does", "rule", "reason"),
    [
        ("import", "os._exit(0)", IMPORT, "exit code 0"),
        ("mount", "os.kill(os.getpid(), 9)", MOUNTING, "SIGKILL"),
        ("call", "os._exit(3)", CALLS, "exit code 3"),
        ("call", "import ctypes; ctypes.string_at(0)", CALLS, "SIGSEGV"),
        ("call", "os.killpg(0, 9)", CALLS, "SIGKILL"),
        ("call", GARBLES, CALLS, "channel of the check"),
        ("call", GARBLES.replace("{}", '{"say": "outcome", "rule": []}'), CALLS, "channel of the check"),
        ("call", "os.closerange(0, 100)", CALLS, "it "),
        ("import", "sys.exit('bye')", IMPORT, "SystemExit"),
        ("mount", "sys.exit()", MOUNTING, "SystemExit"),
        ("mount", "raise KeyboardInterrupt", MOUNTING, "KeyboardInterrupt"),
        ("call", "sys.exit()", CALLS, "SystemExit"),
        ("call", "raise asyncio.CancelledError", CALLS, "CancelledError"),
        ("call", "raise BaseExceptionGroup('', [KeyboardInterrupt()])", CALLS, "BaseExceptionGroup"),
        ("import", "time.sleep(3600)", IMPORT, "blocked the process for 2 s"),
        ("mount", "threading.Event().wait()", MOUNTING, "blocked the process for 2 s"),
        ("call", "time.sleep(3600)", CALLS, "blocked the process for 2 s"),
    ],
)
def test_a_module_that_ends_or_blocks_its_process_breaks_rules(
    run_here: RunHere, tmp_path: Path, place: str, does: str, rule: str, reason: str
) -> None:
    # Only a call with valid arguments runs the statements.
    if place == "call":
        does = f"if text == 'sample': {does.strip()}" if "\n" not in does else does
    result = check(run_here, tmp_path, write_hostile_module(place, does), "2")
    assert rule in result.json["failed"]
    other_rules = {"a_call_that_is_cancelled_stops", "missing_arguments_cause_no_error_of_the_code"}
    assert set(result.json["failed"]) <= {rule, *other_rules}, result.out
    assert result.code == 1
    assert reason in get_reason(result, rule)


@pytest.mark.parametrize(
    ("place", "prints"),
    [
        ("import", "print('hello')"),
        ("mount", "os.write(1, b'hello')"),
        ("call", "subprocess.run(['echo', 'hello'])"),
        ("call", "sys.__stdout__.write('hello')"),
    ],
)
def test_prints_during_any_rule_are_reported(run_here: RunHere, tmp_path: Path, prints: str, place: str) -> None:
    result = check(run_here, tmp_path, write_hostile_module(place, prints))
    assert result.json["failed"] == [STDOUT], result.out
    assert "hello" in get_reason(result, STDOUT)


def test_a_module_reads_an_empty_stdin(run_here: RunHere, tmp_path: Path) -> None:
    result = check(
        run_here, tmp_path, write_module("tool").replace(CALL, f"{CALL}        assert sys.stdin.read() == ''\n")
    )
    assert result.json["failed"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is out of reach")
@pytest.mark.parametrize("ends", ["", "time.sleep(3600)", "os._exit(1)"])
def test_nothing_that_a_module_starts_is_left(run_here: RunHere, tmp_path: Path, ends: str) -> None:
    pid_file = tmp_path / "started"
    starts = f"""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open({str(pid_file)!r}, "a") as file:
                print(os.getpid(), file=file)
            import signal
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execvp("sleep", ["sleep", "3600"])
        os._exit(0)
    os.wait()
    while not os.path.exists({str(pid_file)!r}):
        time.sleep(0.01)
    {ends}
"""
    result = check(run_here, tmp_path, write_module("tool").replace(MOUNT, MOUNT + starts), "2")
    assert result.json["failed"] == ([MOUNTING] if ends else [])
    pids = [int(line) for line in pid_file.read_text().split()]
    assert pids
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is out of reach")
def test_hundreds_of_processes_are_ended_too(run_here: RunHere, tmp_path: Path) -> None:
    pid_file = tmp_path / "started"
    starts = f"""
    for _ in range(150):
        if os.fork() == 0:
            os.setsid()
            os.write(os.open({str(pid_file)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"%d " % os.getpid())
            time.sleep(3600)
            os._exit(0)
    while len(open({str(pid_file)!r}).read().split()) % 150:
        time.sleep(0.01)
"""
    result = check(run_here, tmp_path, write_module("tool").replace(MOUNT, MOUNT + starts))
    assert result.json["failed"] == []
    pids = [int(pid) for pid in pid_file.read_text().split()]
    assert len(pids) >= 300
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing keeps a worker")
def test_a_module_that_stops_its_supervisor_is_ended(run_here: RunHere, tmp_path: Path) -> None:
    stops = f"{MOUNT}    import signal\n    os.kill(os.getppid(), signal.SIGSTOP)\n    time.sleep(3600)\n"
    result = check(run_here, tmp_path, write_module("tool").replace(MOUNT, stops), "2")
    assert result.json["failed"] == [MOUNTING]


def test_a_module_sees_neither_the_folder_nor_the_home_of_the_user(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    writes = f"{MOUNT}    open('here', 'w').close()\n    open(os.path.expanduser('~/home'), 'w').close()\n"
    result = check(run_here, tmp_path, write_module("tool").replace(MOUNT, writes))
    assert result.json["ok"]
    assert not (tmp_path / "here").exists()
    assert not (tmp_path / "home").exists()


def test_the_command_itself_is_not_touched(tmp_path: Path) -> None:
    code = write_module("tool").replace(MOUNT, f"{MOUNT}    print('hello')\n    os._exit(0)\n")
    result = run("module", "validate", write_project(tmp_path / "sample", code), cwd=tmp_path)
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines()[-1].endswith("1 rule broken: it_mounts_what_its_type_requires")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a supervisor of the end of its parent")
def test_when_the_command_is_killed_the_module_ends_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "started"
    code = write_module("tool").replace(
        MOUNT, f"{MOUNT}    open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n    time.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "mcp_bridge", "module", "validate", str(write_project(tmp_path / "sample", code))]
    process = psutil.Popen([*command, "--timeout", "600"], env=dict(os.environ))
    try:
        _until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    finally:
        process.kill()
        process.wait()
    worker = int(pid_file.read_text())
    _until(lambda: not psutil.pid_exists(worker))


def _until(holds: object) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + TIMEOUT
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
