"""For survival tests of worker processes: servers with tools in workers, and the processes that belong to them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import run_server

TOOLS = Path(__file__).with_name("isolated_tools.py")
BEGUN = re.compile(r"begun (\S+) ([\d ]+)")
SMALL = {"workers": 2, "memory": "512 MiB", "file_size": "8 MiB"}


def make_settings(isolation: Any, **more: Any) -> dict[str, Any]:
    """Return settings with this isolation of the source."""
    return {"sources": [{"type": "python", "path": "own_tools.py", "isolation": isolation}], **more}


@contextlib.contextmanager
def run_isolated_server(
    way: Way, folder: Path, isolation: Any = SMALL, tools: Any = TOOLS, **more: Any
) -> Iterator[Any]:
    """Yield a server with tools in workers."""
    env, options = more.pop("env", None), more.pop("options", ())
    with run_server(way, folder, tools, make_settings(isolation, **more), env=env, options=options) as server:
        yield server


def is_gone(pid: int) -> bool:
    """Whether a process has ended. A zombie counts as ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def read_pids(server: Any, token: str) -> list[int]:
    """Return the processes in the output of a tool at its start."""
    server.wait_for_stderr(f"begun {token}")
    pids = [match[2] for match in BEGUN.finditer(server.stderr) if match[1] == token]
    return [int(pid) for pid in pids[-1].split()]


def find_children(token: str) -> list[int]:
    """Return all running processes with a token in their command line."""
    marked = []
    for process in psutil.process_iter(["cmdline"]):
        if f"child-{token}" in (process.info["cmdline"] or []):
            marked.append(process.pid)
    return [pid for pid in marked if not is_gone(pid)]


def list_workers(server: Any) -> list[int]:
    """Return all descendants of the bridge's process."""
    return [process.pid for process in psutil.Process(server.pid).children(recursive=True)]


@contextlib.contextmanager
def keep_neighbours_in_flight(server: Any) -> Iterator[None]:
    """Keep two calls in flight during the block: in the bridge's process, and in another worker of the same source.

    Both must succeed after the block.
    """
    token = os.urandom(4).hex()
    with server.keep_call_in_flight():
        waiting = server.send_call("stays", token=token)
        read_pids(server, token)
        yield
        assert not waiting.done(), waiting.result()
        (server.folder / token).touch()
        assert waiting.result(TIMEOUT)["result"]["content"][0]["text"] == f"stayed {token}"


def get_bridge_pid(server: Any) -> int:
    """Return the id of the bridge's process."""
    return int(server.get_text("whoami"))


def count_list_changes(server: Any) -> int:
    """Return the number of received list_changed notifications."""
    return sum(message.get("method") == "notifications/tools/list_changed" for message in server.received)


def list_names(server: Any) -> set[str]:
    """Return the names of the listed tools."""
    return {tool["name"] for tool in server.send_request("tools/list").result(TIMEOUT)["result"]["tools"]}
