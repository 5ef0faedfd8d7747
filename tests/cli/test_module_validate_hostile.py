"""`module validate` and modules that do what nobody should: one item fails, and nothing is left running."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.kits.cli.cli_running import PATIENCE, Done, Inside, run
from tests.kits.cli.examining import Module, examine
from tests.kits.cli.validated_modules import HEAD, TOOL, project, source

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the hostile modules are POSIX's")
CALL = '        logger.debug("a call")\n'
GARBLES = """for fd in range(3, 30):
            try:
                os.write(fd, b'{}\\n')
            except OSError:
                pass"""
MOUNT = "async def mount(coordinator, config):\n"


def check(inside: Inside, folder: Path, code: str, timeout: str = "20") -> Done:
    """The command's answer about a tool of this code."""
    return inside("module", "validate", project(folder / "sample", code), "--json", "--timeout", timeout)


def placed(place: str, does: str) -> str:
    """The good tool, but for what it does at its import, when it is mounted, or when it is called."""
    if place == "import":
        return source("tool").replace("logger = ", f"{does}\nlogger = ")
    old, indent = (MOUNT, "    ") if place == "mount" else (CALL, "        ")
    return source("tool").replace(old, f"{old}{indent}{does}\n")


def told(done: Done, item: str) -> str:
    """What was found about an item."""
    return next(str(one["found"]) for one in done.json["items"] if one["id"] == item)


@pytest.mark.parametrize(
    ("place", "does", "item", "found"),
    [
        ("import", "os._exit(0)", "structure.import", "exit code 0"),
        ("mount", "os.kill(os.getpid(), 9)", "mount.works", "SIGKILL"),
        ("call", "os._exit(3)", "tool.errors", "exit code 3"),
        ("call", "import ctypes; ctypes.string_at(0)", "tool.errors", "SIGSEGV"),
        ("call", "os.killpg(0, 9)", "tool.errors", "SIGKILL"),
        ("call", GARBLES, "tool.errors", "channel of the check"),
        ("call", GARBLES.replace("{}", '{"say": "found", "item": []}'), "tool.errors", "channel of the check"),
        ("call", "os.closerange(0, 100)", "tool.errors", "it "),
    ],
)
def test_whatever_ends_the_process_is_one_failing_item(
    inside: Inside, tmp_path: Path, place: str, does: str, item: str, found: str
) -> None:
    code = placed(place, does)
    done = check(inside, tmp_path, code)
    assert (done.json["failed"], done.code) == ([item], 1), done.out
    assert found in told(done, item)


def test_whatever_is_raised_is_one_failing_item(tmp_path: Path) -> None:
    rows = {
        "an exit at import": ("import", "sys.exit('bye')", "structure.import", "SystemExit"),
        "an exit when mounted": ("mount", "sys.exit()", "mount.works", "SystemExit"),
        "an interrupt": ("mount", "raise KeyboardInterrupt", "mount.works", "KeyboardInterrupt"),
        "an exit in a call": ("call", "sys.exit()", "tool.errors", "SystemExit"),
        "a cancellation": ("call", "raise asyncio.CancelledError", "tool.errors", "CancelledError"),
        "a group": ("call", "raise BaseExceptionGroup('', [KeyboardInterrupt()])", "tool.errors", "BaseExceptionGroup"),
        "a recursion": ("call", "(lambda f: f(f))(lambda f: f(f))", "tool.errors", "RecursionError"),
    }
    modules = {
        name: Module(path=project(tmp_path / name, placed(place, does))) for name, (place, does, *_) in rows.items()
    }
    results = examine(modules, tmp_path)
    assert {name: result.wrong[0] for name, result in results.items()} == {name: [row[2]] for name, row in rows.items()}
    for name, (_, _, item, found) in rows.items():
        assert found in results[name].item(item).found


@pytest.mark.parametrize(
    ("place", "item", "wait"),
    [
        ("import", "structure.import", "time.sleep(3600)"),
        ("mount", "mount.works", "threading.Event().wait()"),
        ("call", "tool.time", "time.sleep(3600)"),
    ],
)
def test_what_blocks_for_ever_is_one_failing_item(
    inside: Inside, tmp_path: Path, place: str, item: str, wait: str
) -> None:
    done = check(inside, tmp_path, placed(place, wait), "2")
    assert (done.json["failed"], done.json["warned"]) == ([item], [])
    assert "blocked the process for 2 s" in told(done, item)


@pytest.mark.parametrize(
    ("place", "prints"),
    [
        ("import", "print('hello')"),
        ("mount", "os.write(1, b'hello')"),
        ("call", "subprocess.run(['echo', 'hello'])"),
        ("call", "sys.__stdout__.write('hello')"),
    ],
)
def test_whatever_is_printed_is_found(inside: Inside, tmp_path: Path, prints: str, place: str) -> None:
    done = check(inside, tmp_path, placed(place, prints))
    assert (done.json["failed"], done.json["warned"]) == (["stdout"], []), done.out
    assert "hello" in told(done, "stdout")


def test_what_is_read_from_stdin_is_its_end(inside: Inside, tmp_path: Path) -> None:
    done = check(inside, tmp_path, source("tool").replace(CALL, f"{CALL}        assert sys.stdin.read() == ''\n"))
    assert (done.json["failed"], done.json["warned"]) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is out of reach")
@pytest.mark.parametrize("ends", ["", "time.sleep(3600)", "os._exit(1)"])
def test_nothing_that_a_module_starts_is_left(inside: Inside, tmp_path: Path, ends: str) -> None:
    started = tmp_path / "started"
    starts = f"""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open({str(started)!r}, "a") as file:
                print(os.getpid(), file=file)
            import signal
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execvp("sleep", ["sleep", "3600"])
        os._exit(0)
    os.wait()
    while not os.path.exists({str(started)!r}):
        time.sleep(0.01)
    {ends}
"""
    done = check(inside, tmp_path, source("tool").replace(MOUNT, MOUNT + starts), "2")
    assert (done.json["failed"], done.json["warned"]) == ((["mount.works"], []) if ends else ([], ["mount.leftovers"]))
    pids = [int(line) for line in started.read_text().split()]
    assert pids
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is out of reach")
def test_hundreds_of_processes_are_ended_too(inside: Inside, tmp_path: Path) -> None:
    started = tmp_path / "started"
    starts = f"""
    for _ in range(150):
        if os.fork() == 0:
            os.setsid()
            os.write(os.open({str(started)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"%d " % os.getpid())
            time.sleep(3600)
            os._exit(0)
    while len(open({str(started)!r}).read().split()) % 150:
        time.sleep(0.01)
"""
    done = check(inside, tmp_path, source("tool").replace(MOUNT, MOUNT + starts))
    assert (done.json["failed"], done.json["warned"]) == ([], ["mount.leftovers"])
    pids = [int(pid) for pid in started.read_text().split()]
    assert len(pids) == 300
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing keeps a worker")
def test_a_module_that_stops_its_supervisor_is_ended_all_the_same(inside: Inside, tmp_path: Path) -> None:
    stops = f"{MOUNT}    import signal\n    os.kill(os.getppid(), signal.SIGSTOP)\n    time.sleep(3600)\n"
    done = check(inside, tmp_path, source("tool").replace(MOUNT, stops), "2")
    assert done.json["failed"] == ["mount.works"]


def test_one_tool_that_ends_the_process_keeps_no_other_from_being_checked(inside: Inside, tmp_path: Path) -> None:
    second = TOOL.partition("async def mount")[0].replace("Sample", "Other").replace('"sample"', '"other"')
    code = (
        HEAD.replace("KIND", "tool")
        + second.replace(CALL, "        os._exit(1)\n")
        + TOOL.replace(
            "    return None", '    await coordinator.mount("tools", Other(), name="other")\n    return None'
        ).replace("return ToolResult(output=text)", "return text")
    )
    done = check(inside, tmp_path, code)
    assert done.json["failed"] == ["tool.result", "tool.errors"]
    assert told(done, "tool.errors").startswith("'other'")
    assert told(done, "tool.result").startswith("'sample'")


def test_a_module_sees_neither_the_folder_nor_the_home_of_the_person(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    writes = f"{MOUNT}    open('here', 'w').close()\n    open(os.path.expanduser('~/home'), 'w').close()\n"
    done = check(inside, tmp_path, source("tool").replace(MOUNT, writes))
    assert done.json["ok"]
    assert not (tmp_path / "here").exists()
    assert not (tmp_path / "home").exists()


def test_the_command_itself_is_not_touched(tmp_path: Path) -> None:
    code = source("tool").replace(MOUNT, f"{MOUNT}    print('hello')\n    os._exit(0)\n")
    done = run("module", "validate", project(tmp_path / "sample", code), cwd=tmp_path)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[-1].endswith("1 requirement not met: mount.works")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a supervisor of the end of its parent")
def test_when_the_command_is_killed_the_module_ends_too(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = source("tool").replace(
        MOUNT, f"{MOUNT}    open({str(started)!r}, 'w').write(str(os.getpid()))\n    time.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "mcp_bridge", "module", "validate", str(project(tmp_path / "sample", code))]
    process = psutil.Popen([*command, "--timeout", "600"], env=dict(os.environ))
    try:
        _until(lambda: started.exists() and bool(started.read_text()))
    finally:
        process.kill()
        process.wait()
    worker = int(started.read_text())
    _until(lambda: not psutil.pid_exists(worker))


def _until(holds: object) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
