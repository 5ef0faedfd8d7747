"""Tools in bubblewrap see only the files named by the settings; without bubblewrap they do not start."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
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
from tests.kits.survival.survival_kit import FIRST_WAY, run_server

TOOLS = """
import os, socket, subprocess, sys, time
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


def explain_missing_sandbox() -> str:
    """Return why a sandbox cannot be created on this machine, or an empty text."""
    if shutil.which("bwrap") is None:
        return "there is no bubblewrap"
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    return f"bubblewrap cannot create a sandbox: {result.stderr.strip()}" if result.returncode else ""


MISSING_SANDBOX_REASON = explain_missing_sandbox()
needs_bubblewrap = pytest.mark.skipif(
    bool(MISSING_SANDBOX_REASON), reason=f"NOT TESTED, the sandbox does not work here: {MISSING_SANDBOX_REASON}"
)


@contextlib.contextmanager
def run_in_sandbox(folder: Path, **more: Any) -> Iterator[Any]:
    """Run a server with tools in a sandbox, in a folder below this one."""
    inside = folder / "settings"
    inside.mkdir()
    source = {"type": "python", "path": "own_tools.py", "isolation": {"sandbox": more or "bubblewrap", "workers": 2}}
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


@needs_bubblewrap
def test_a_sandbox_can_read_only_its_own_files_and_named_paths(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "file.txt").write_text("seen")
    with run_in_sandbox(tmp_path, read=["../named"]) as server, server.keep_call_in_flight():
        check_failure(server, "reads", path=str(tmp_path / "secret.txt"))
        check_failure(server, "reads", path="../secret.txt")
        check_failure(server, "reads", path="mcp-bridge.json")
        assert list_visible_files(server, ".") == {"own_tools.py"}
        assert list_visible_files(server, str(Path.home())) <= ABOVE
        assert "bridge" in server.get_text("reads", path="own_tools.py")
        assert server.get_text("reads", path=str(tmp_path / "named" / "file.txt")) == "seen"
        check_failure(server, "writes", path=str(tmp_path / "named" / "new.txt"))
        assert list_visible_files(server, str(tmp_path)) == {"named", "settings"}


@needs_bubblewrap
def test_the_working_folder_of_the_bridge_is_not_visible(tmp_path: Path) -> None:
    working_folder, inside = tmp_path / "started", tmp_path / "settings"
    for folder in (working_folder, inside):
        folder.mkdir()
    (working_folder / "secret.txt").write_text("secret")
    (inside / "own_tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "own_tools.py", "isolation": {"sandbox": "bubblewrap"}}
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
    assert "FileNotFoundError" in result.stderr
    assert "secret\n" not in result.stdout


@needs_bubblewrap
def test_a_sandbox_can_write_only_named_paths(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with run_in_sandbox(tmp_path, write=[str(tmp_path / "out")]) as server:
        check_failure(server, "writes", path="new.txt")
        check_failure(server, "writes", path="own_tools.py")
        assert server.get_text("writes", path=str(tmp_path / "out" / "new.txt")) == "written"
        assert (tmp_path / "out" / "new.txt").read_text() == "written"
        new_file = f"/tmp/{tmp_path.name}-own.txt"
        assert server.get_text("writes", path=new_file) == "written"
        assert not Path(new_file).exists()


@needs_bubblewrap
def test_a_writable_folder_around_the_settings_leaves_them_as_they_are(tmp_path: Path) -> None:
    with run_in_sandbox(tmp_path, write=[str(tmp_path)]) as server:
        assert server.get_text("writes", path=str(tmp_path / "new.txt")) == "written"
        check_failure(server, "writes", path="own_tools.py")


@needs_bubblewrap
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_available_if_the_settings_allow_it(network: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, run_in_sandbox(tmp_path, network=network) as server:

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


@needs_bubblewrap
def test_a_sandbox_cannot_reach_other_processes(tmp_path: Path) -> None:
    with run_in_sandbox(tmp_path) as server:
        assert len(json.loads(server.get_text("processes"))) < 6
        result = server.get_result("kills", pid=server.pid)
        assert result["isError"]
        assert server.is_running
        assert server.get_text("echo", text="alive") == "alive"


@needs_bubblewrap
def test_a_crash_in_a_sandbox_costs_one_call(tmp_path: Path) -> None:
    with run_in_sandbox(tmp_path) as server, server.keep_call_in_flight():
        result = server.get_result("wreck")
        assert result["_meta"]["mcp-bridge/code"] == "tool_crashed"
        assert "SIGSEGV" in result["content"][0]["text"]
        assert "bridge" in server.get_text("reads", path="own_tools.py")


@needs_bubblewrap
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_everything_in_a_sandbox_ends_with_the_bridge(how: signal.Signals, tmp_path: Path) -> None:
    mark = f"boxed-{os.urandom(4).hex()}"
    with run_in_sandbox(tmp_path) as server:
        assert server.get_text("leaves", mark=mark) == "left"
        below = [process.pid for process in psutil.Process(server.pid).children(recursive=True)]
        assert find_processes(mark)
        server.signal(how)
        server.wait()
        end = time.monotonic() + TIMEOUT
        while find_processes(mark) or any(map(psutil.pid_exists, below)):
            assert time.monotonic() < end
            time.sleep(0.05)


@needs_bubblewrap
def test_a_readable_path_must_exist(tmp_path: Path) -> None:
    with run_in_sandbox(tmp_path, read=["nowhere"]) as server:
        server.wait_for_stderr("bubblewrap cannot create a sandbox here")
        server.wait_for_stderr("nowhere")
        assert server.get_text("echo", text="served") == "served"


def fail_to_start(folder: Path, path: str) -> tuple[int, str]:
    """Start a server with this PATH whose only source requires a sandbox, and return its exit code and errors."""
    (folder / "own_tools.py").write_text("import pathlib\npathlib.Path('imported').touch()\n" + TOOLS)
    (folder / "bridge.yaml").write_text(
        "sources:\n  - type: python\n    path: own_tools.py\n    isolation:\n      sandbox: bubblewrap\n"
    )
    command = [sys.executable, "-m", "mcp_bridge", "serve", "bridge.yaml"]
    env = {**os.environ, "PATH": path}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            # The end of its input would end the process as well.
            code = process.wait(TIMEOUT)
        finally:
            process.kill()
        assert process.stderr is not None
        return code, process.stderr.read()


def test_without_bubblewrap_the_server_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    code, errors = fail_to_start(tmp_path, str(tmp_path / "bin"))
    assert code == 2
    assert "bridge.yaml:5" in errors
    assert "bubblewrap is not installed" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "imported").exists()


def test_a_kernel_that_forbids_the_sandbox_is_an_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    code, errors = fail_to_start(tmp_path, f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert code != 0
    assert "bubblewrap cannot create a sandbox here: bwrap: No permissions to create new namespace" in errors
    assert not (tmp_path / "imported").exists()
