"""A job of Windows ends a child with all its descendants. The processes are real; stopped ones count as suspended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mcp_bridge._runtime.platform import kernel32, windows
from tests.kits.constants import TIMEOUT
from tests.kits.platforms import windows_kernel
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.usefixtures("simulated_kernel")
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def suspended_parent() -> Iterator[subprocess.Popen[str]]:
    """Start a suspended process that will start another one, and print its id."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    process.send_signal(signal.SIGSTOP)
    with process:
        yield process
        process.kill()


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_child_runs_only_once_it_is_in_its_job(
    suspended_parent: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []

    def assign(job: int, pid: int) -> None:
        states.append(wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED))

    monkeypatch.setattr(windows_kernel, "assign_to_job", assign)
    windows.ProcessGroup(suspended_parent.pid)
    assert suspended_parent.stdout is not None
    assert int(suspended_parent.stdout.readline())
    assert states == [True]


@pytest.mark.parametrize("way", ["kill", "close"])
def test_a_descendant_in_its_own_session_ends_with_the_job(suspended_parent: subprocess.Popen[str], way: str) -> None:
    group = windows.ProcessGroup(suspended_parent.pid)
    assert suspended_parent.stdout is not None
    descendant = int(suspended_parent.stdout.readline())
    assert is_running(descendant)
    getattr(group, way)()
    assert suspended_parent.wait(TIMEOUT) == -signal.SIGKILL
    wait_until(lambda: not is_running(descendant))
    group.close()
    group.kill()


def test_a_child_that_cannot_be_put_into_a_job_never_runs(
    suspended_parent: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def assign(job: int, pid: int) -> None:
        raise PermissionError("the job of the client allows no other job")

    monkeypatch.setattr(windows_kernel, "assign_to_job", assign)
    with pytest.raises(PermissionError):
        windows.ProcessGroup(suspended_parent.pid)
    assert suspended_parent.wait(TIMEOUT) == -signal.SIGKILL
    assert suspended_parent.stdout is not None
    assert suspended_parent.stdout.read() == ""
    assert windows_kernel.jobs == {}


@pytest.mark.parametrize(("console", "flags"), [(True, 0x204), (False, 0x08000204)])
def test_children_open_no_window(console: bool, flags: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_kernel, "has_console", lambda: console)
    assert windows.make_child_options() == {"creationflags": flags}


@pytest.mark.parametrize(("arguments", "is_contained"), [(["serve", "x.yaml"], True), (["serve", "--no-guard"], False)])
def test_a_server_with_a_guard_is_in_a_job(arguments: list[str], is_contained: bool) -> None:
    assert windows.start_supervisor(arguments) is None
    assert list(windows_kernel.jobs.values()) == ([{os.getpid()}] if is_contained else [])


LOCKING = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 << 30)
    except OSError:
        print("locked", file.read())
    else:
        print("free")
"""


def test_another_process_can_read_but_not_lock_a_locked_file(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_bytes(b"content")
    command = [sys.executable, "-c", LOCKING, str(file)]
    with file.open("r+b") as stream:
        with windows.lock_descriptor(stream.fileno()) as is_locked:
            assert is_locked
            assert subprocess.check_output(command, text=True) == "locked b'content'\n"
        assert subprocess.check_output(command, text=True) == "free\n"


def test_a_folder_is_locked_by_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with windows.lock_folder(tmp_path / "folder", tmp_path / "locks/abc"):
        assert list((tmp_path / "folder").iterdir()) == []
        assert (tmp_path / "locks/abc").exists()


def test_a_private_folder_is_rejected_if_others_can_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "private"
    assert windows.create_private_folder(folder) == folder
    rights = windows_kernel.read_access_rights(str(folder))
    monkeypatch.setattr(windows_kernel, "read_access_rights", lambda path: rights + "(A;OICI;FR;;;WD)")
    with pytest.raises(PermissionError, match=r"other users \(WD\) can use"):
        windows.create_private_folder(folder)


class RecordedLibrary:
    """A library of Windows whose functions succeed, and record their arguments."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls[name] = arguments
            return 8

        # ctypes functions have attributes, too.
        self.__dict__[name] = call
        return call


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_break_goes_to_the_group_of_a_child_if_it_shares_the_console(
    is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(GenerateConsoleCtrlEvent=lambda event, group: is_sent and (event, group) == (1, 42))
    fake = SimpleNamespace(
        WinDLL=lambda name, use_last_error: library, get_last_error=lambda: 6, WinError=lambda code: OSError(code, "")
    )
    monkeypatch.setattr(kernel32, "_import_module", lambda name: fake)
    expectation = contextlib.nullcontext() if is_sent else pytest.raises(OSError, match="6")
    with expectation:
        kernel32.send_break(42)


def test_a_child_without_the_console_gets_no_break(
    suspended_parent: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(group: int) -> None:
        raise OSError(6, "The handle is invalid")

    monkeypatch.setattr(windows_kernel, "send_break", fail)
    group = windows.ProcessGroup(suspended_parent.pid)
    group.terminate()
    group.kill()
    assert suspended_parent.wait(TIMEOUT) == -signal.SIGKILL


def test_a_job_kills_its_processes_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    library = RecordedLibrary()
    fake = SimpleNamespace(WinDLL=lambda name, use_last_error: library)
    monkeypatch.setattr(kernel32, "_import_module", lambda name: fake)
    assert kernel32.create_job() == 8
    _, kind, reference, size = library.calls["SetInformationJobObject"]
    limits = reference._obj
    # The size of JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64 bits.
    assert (kind, size, ctypes.sizeof(ctypes.c_void_p)) == (9, 144, 8)
    assert limits.BasicLimitInformation.LimitFlags == 0x2000
    assert type(limits.BasicLimitInformation).LimitFlags.offset == 16
    kernel32.assign_to_job(8, 42)
    assert library.calls["OpenProcess"] == (0x0101, False, 42)
    assert library.calls["AssignProcessToJobObject"][0].value == 8
    kernel32.terminate_job(8)
    assert library.calls["TerminateJobObject"][1] == 1
