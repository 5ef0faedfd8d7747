"""For tests of processes: a server with tools that start processes, and a search for running processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.client.server_process import Way
from tests.kits.survival.survival_kit import run_server
from tests.kits.waiting import wait_until

TOOLS = Path(__file__).with_name("spawning_tools.py")
SHORT_LIMITS = {"timeout": "10m", "drain": "2s"}


def make_token() -> str:
    """Return a unique word for the command line of a process."""
    return f"left-{os.urandom(6).hex()}"


def find_processes(token: str) -> list[int]:
    """Return the running processes with a token in their command line."""
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if token in " ".join(process.cmdline()[-2:]) and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
    return pids


def wait_until_gone(token: str) -> None:
    """Wait until no process has this token in its command line."""
    wait_until(lambda: not find_processes(token))


@contextlib.contextmanager
def run_spawning_server(way: Way, folder: Path, *options: str, **settings: Any) -> Iterator[Any]:
    """Yield a server with tools that start processes."""
    all_settings = {"limits": SHORT_LIMITS, **settings}
    with run_server(way, folder, TOOLS, all_settings, options=options) as server:
        yield server


def get_pids(server: Any) -> tuple[int, int, int]:
    """Return the ids of the two supervisors and of the bridge."""
    return server.process.pid, psutil.Process(server.pid).ppid(), server.pid


def get_command(*options: str) -> list[str]:
    """Return the command of a server in its working directory."""
    return [sys.executable, "-m", "mcp_bridge", "serve", *options]


def start_server(folder: Path, *options: str, **how: Any) -> subprocess.Popen[bytes]:
    """Start a server with pipes for its three standard streams."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(get_command(*options), cwd=folder, **{**pipes, **how})
