"""Tools in a sandbox can access only the files named by the settings; without a sandbox they do not start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.sandbox.sandbox_kit import on_both_mechanisms
from tests.kits.survival.survival_kit import FIRST_WAY, run_server
from tests.kits.waiting import wait_until

TOOLS = """
import os, socket, subprocess, sys, tempfile, time
from mcp_bridge import tool

@tool
def reads(path: str) -> str:
    return open(path).read()

@tool
def lists(path: str) -> list[str]:
    return sorted(os.listdir(path))

@tool
def writes(path: str) -> str:
    with open(path, "w") as file:
        file.write("written")
    return "written"

@tool
def finds_temporary_folder() -> str:
    return tempfile.gettempdir()

@tool
def connects(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 5) as talk:
        return talk.recv(100).decode()

@tool
def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]

@tool
def kills(pid: int) -> str:
    os.kill(pid, 9)
    return "killed"

@tool
def leaves(mark: str) -> str:
    program = [sys.executable, "-S", "-c", "import time; time.sleep(600)", mark]
    subprocess.Popen(program, start_new_session=True)
    return "left"

@tool
def wreck() -> None:
    os.kill(os.getpid(), 11)
"""


@contextlib.contextmanager
def run_in_sandbox(mechanism: str, folder: Path, **more: Any) -> Iterator[Any]:
    """Run a server with tools in a sandbox, in a folder below this one."""
    inside = folder / "settings"
    inside.mkdir()
    isolation = {"sandbox": {"type": mechanism, **more} if more else mechanism, "workers": 2}
    source = {"type": "python", "path": "own_tools.py", "isolation": isolation}
    with run_server(FIRST_WAY, inside, TOOLS, {"sources": [source]}) as server:
        yield server


def check_failure(server: Any, name: str, **arguments: Any) -> None:
    """Assert that a call fails with an internal error."""
    result = server.get_result(name, **arguments)
    assert result["isError"], result
    assert result["_meta"]["mcp-bridge/code"] == "internal_error"


def find_processes(mark: str) -> list[int]:
    """Return the running processes with this word among their arguments."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


ABOVE = {part for place in (sys.prefix, sys.base_prefix, *sys.path) for part in Path(place).parts}
"""Folders that are there because what is below them is."""


def list_visible_files(server: Any, path: str) -> set[str]:
    """Return the files of a folder as a tool sees them; none if there is no folder."""
    result = server.get_result("lists", path=path)
    return set() if result.get("isError") else set(json.loads(result["content"][0]["text"]))


@on_both_mechanisms
def test_a_sandbox_can_read_only_its_own_files_and_named_paths(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "file.txt").write_text("seen")
    with run_in_sandbox(mechanism, tmp_path, read=["../named"]) as server, server.keep_call_in_flight():
        check_failure(server, "reads", path=str(tmp_path / "secret.txt"))
        check_failure(server, "reads", path="../secret.txt")
        check_failure(server, "reads", path="mcp-bridge.json")
        assert list_visible_files(server, str(Path.home())) <= ABOVE
        assert "bridge" in server.get_text("reads", path="own_tools.py")
        assert server.get_text("reads", path=str(tmp_path / "named" / "file.txt")) == "seen"
        check_failure(server, "writes", path=str(tmp_path / "named" / "new.txt"))
        # Landlock does not hide the names in the settings' folder, because a source looks for its files there.
        if mechanism == "bubblewrap":
            assert list_visible_files(server, ".") == {"own_tools.py"}
            assert list_visible_files(server, str(tmp_path)) == {"named", "settings"}
        else:
            assert list_visible_files(server, ".") >= {"own_tools.py", "mcp-bridge.json"}
            assert list_visible_files(server, str(tmp_path)) == set()


@on_both_mechanisms
def test_the_working_folder_of_the_bridge_is_not_visible(mechanism: str, tmp_path: Path) -> None:
    working_folder, inside = tmp_path / "started", tmp_path / "settings"
    for folder in (working_folder, inside):
        folder.mkdir()
    (working_folder / "secret.txt").write_text("secret")
    (inside / "own_tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "own_tools.py", "isolation": {"sandbox": mechanism}}
    (inside / "bridge.json").write_text(json.dumps({"sources": [source]}))
    call = ["call", "reads", f"path={working_folder / 'secret.txt'}", "--file", str(inside / "bridge.json")]
    result = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", *call],
        cwd=working_folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert result.returncode != 0
    assert {"bubblewrap": "FileNotFoundError", "landlock": "PermissionError"}[mechanism] in result.stderr
    assert "secret\n" not in result.stdout


@on_both_mechanisms
def test_a_sandbox_can_write_only_named_paths(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with run_in_sandbox(mechanism, tmp_path, write=[str(tmp_path / "out")]) as server:
        check_failure(server, "writes", path="new.txt")
        check_failure(server, "writes", path="own_tools.py")
        assert server.get_text("writes", path=str(tmp_path / "out" / "new.txt")) == "written"
        assert (tmp_path / "out" / "new.txt").read_text() == "written"
        new_file = f"{server.get_text('finds_temporary_folder')}/{tmp_path.name}-own.txt"
        assert server.get_text("writes", path=new_file) == "written"
    wait_until(lambda: not Path(new_file).exists())


@on_both_mechanisms
def test_a_writable_folder_around_the_settings_leaves_them_as_they_are(mechanism: str, tmp_path: Path) -> None:
    with run_in_sandbox(mechanism, tmp_path, write=[str(tmp_path)]) as server:
        if mechanism == "landlock":
            server.wait_for_stderr(f"Landlock cannot keep {tmp_path}/settings read-only within a writable folder")
            assert server.get_text("echo", text="served") == "served"
            return
        assert server.get_text("writes", path=str(tmp_path / "new.txt")) == "written"
        check_failure(server, "writes", path="own_tools.py")


@on_both_mechanisms
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_available_if_the_settings_allow_it(mechanism: str, network: bool, tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        run_in_sandbox(mechanism, tmp_path, network=network) as server,
    ):

        def greet() -> None:
            with contextlib.suppress(OSError):
                talk, _ = listening.accept()
                with talk:
                    talk.sendall(b"hello")

        threading.Thread(target=greet, daemon=True).start()
        port = listening.getsockname()[1]
        if network:
            assert server.get_text("connects", port=port) == "hello"
        else:
            check_failure(server, "connects", port=port)


@on_both_mechanisms
def test_a_sandbox_cannot_reach_other_processes(mechanism: str, tmp_path: Path) -> None:
    with run_in_sandbox(mechanism, tmp_path) as server:
        # Landlock hides all of them, even the process itself.
        if mechanism == "bubblewrap":
            assert len(json.loads(server.get_text("processes"))) < 6
        else:
            check_failure(server, "processes")
        check_failure(server, "reads", path=f"/proc/{server.pid}/environ")
        result = server.get_result("kills", pid=server.pid)
        assert result["isError"]
        assert server.is_running
        assert server.get_text("echo", text="alive") == "alive"


@on_both_mechanisms
def test_a_crash_in_a_sandbox_costs_one_call(mechanism: str, tmp_path: Path) -> None:
    with run_in_sandbox(mechanism, tmp_path) as server, server.keep_call_in_flight():
        result = server.get_result("wreck")
        assert result["_meta"]["mcp-bridge/code"] == "tool_crashed"
        assert "SIGSEGV" in result["content"][0]["text"]
        assert "bridge" in server.get_text("reads", path="own_tools.py")


@on_both_mechanisms
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_everything_in_a_sandbox_ends_with_the_bridge(mechanism: str, how: signal.Signals, tmp_path: Path) -> None:
    mark = f"boxed-{os.urandom(4).hex()}"
    with run_in_sandbox(mechanism, tmp_path) as server:
        assert server.get_text("leaves", mark=mark) == "left"
        below = [process.pid for process in psutil.Process(server.pid).children(recursive=True)]
        assert find_processes(mark)
        server.signal(how)
        server.wait()
        end = time.monotonic() + TIMEOUT
        while find_processes(mark) or any(map(psutil.pid_exists, below)):
            assert time.monotonic() < end
            time.sleep(0.05)


@on_both_mechanisms
def test_the_import_of_code_outside_of_the_sandbox_is_reported(mechanism: str, tmp_path: Path) -> None:
    isolation = {"sandbox": mechanism, "tools": ["reads"]}
    source = {"type": "python", "path": "own_tools.py", "isolation": isolation}
    with run_server(FIRST_WAY, tmp_path, TOOLS, {"sources": [source]}) as server:
        server.wait_for_stderr(
            "has isolation.tools, so the bridge imports its code outside of the sandbox or container"
        )
        check_failure(server, "reads", path="mcp-bridge.json")


@on_both_mechanisms
def test_a_readable_path_must_exist(mechanism: str, tmp_path: Path) -> None:
    with run_in_sandbox(mechanism, tmp_path, read=["nowhere"]) as server:
        server.wait_for_stderr("cannot create a sandbox here")
        server.wait_for_stderr("nowhere")
        assert server.get_text("echo", text="served") == "served"
