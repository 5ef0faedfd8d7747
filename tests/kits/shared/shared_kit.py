"""Clients of a shared server: each starts `serve --shared`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.client.server_process import ClientProfile, StdioServerProcess, Way

TOOLS = Path(__file__).with_name("shared_tools.py")


@contextlib.contextmanager
def run_shared_server(folder: Path, **settings: Any) -> Iterator[Any]:
    """Yield the settings of a shared server, and a function that starts its clients. End all servers at the end."""
    (folder / "own_tools.py").write_text(TOOLS.read_text("utf-8"), "utf-8")
    file = folder / "shelf.json"
    file.write_text(json.dumps({"sources": [{"type": "python", "path": "own_tools.py"}], **settings}))
    # The length of a socket's path is limited, and the test's folder may be too deep.
    state = Path(tempfile.mkdtemp())
    (folder / "state").symlink_to(state)
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    clients: list[StdioServerProcess] = []

    def start(
        *options: str,
        stateless: bool = False,
        initialize: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        file: Path = file,
        **variables: str,
    ) -> StdioServerProcess:
        command = [sys.executable, "-m", "mcp_bridge", "serve", "--shared", str(file), *options]
        profile = ClientProfile(capabilities or {})
        way = Way("stdio", stateless)
        client = StdioServerProcess(command, way, profile, initialize=initialize, env={**env, **variables})
        clients.append(client)
        return client

    try:
        yield start
    finally:
        for client in clients:
            client.close()
        end_servers(folder)
        shutil.rmtree(state)


def find_servers(folder: Path) -> list[int]:
    """Return the processes with files of a folder, without their supervisors."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            is_live = process.status() != psutil.STATUS_ZOMBIE
            if "_cli.shared.server" in line and str(folder) in line and is_live:
                processes.append((process.pid, process.ppid()))
    parents = {parent for _, parent in processes}
    return [pid for pid, _ in processes if pid not in parents]


def end_servers(folder: Path) -> None:
    """Kill the remaining servers."""
    while pids := find_servers(folder):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        time.sleep(0.05)
