"""The shared parts of the survival tests of worker processes."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import run_server

TOOLS = Path(__file__).with_name("isolated_tools.py")
BEGUN = re.compile(r"begun (\S+) ([\d ]+)")
CODE = "mcp-bridge/code"
SMALL = {"workers": 2, "memory": "512 MiB", "file_size": "8 MiB"}


def settings_of(isolation: Any, **more: Any) -> dict[str, Any]:
    """Return settings with this isolation of the source."""
    return {"sources": [{"type": "python", "path": "own_tools.py", "isolation": isolation}], **more}


@contextlib.contextmanager
def isolated(way: Way, folder: Path, isolation: Any = SMALL, tools: Any = TOOLS, **more: Any) -> Iterator[Any]:
    """Yield a server with tools in workers."""
    env, options = more.pop("env", None), more.pop("options", ())
    with run_server(way, folder, tools, settings_of(isolation, **more), env=env, options=options) as server:
        yield server


def code_of(result: dict[str, Any]) -> str | None:
    """The stable code of a failed result."""
    code: str | None = (result.get("_meta") or {}).get(CODE) if result.get("isError") else None
    return code


def eventually(holds: Callable[[], Any], within: float = TIMEOUT) -> Any:
    """Wait until a condition is true, and return its value."""
    end = time.monotonic() + within
    while not (result := holds()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
    return result


def is_gone(pid: int) -> bool:
    """Whether a process has ended. A zombie counts as ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def pids_of(server: Any, token: str) -> list[int]:
    """Return the processes in the output of a tool at its start."""
    server.wait_for_stderr(f"begun {token}")
    pids = [match[2] for match in BEGUN.finditer(server.stderr) if match[1] == token]
    return [int(pid) for pid in pids[-1].split()]


def children_of(token: str) -> list[int]:
    """Return all running processes with a token in their command line."""
    marked = []
    for process in psutil.process_iter(["cmdline"]):
        if f"child-{token}" in (process.info["cmdline"] or []):
            marked.append(process.pid)
    return [pid for pid in marked if not is_gone(pid)]


def workers_of(server: Any) -> list[int]:
    """Every process below the bridge."""
    return [process.pid for process in psutil.Process(server.pid).children(recursive=True)]


@contextlib.contextmanager
def beside(server: Any) -> Iterator[None]:
    """Two neighbours: a call in the bridge's own process, and one in another worker of the same source."""
    token = os.urandom(4).hex()
    with server.keep_call_in_flight():
        waiting = server.send_call("stays", token=token)
        pids_of(server, token)
        yield
        assert not waiting.done(), waiting.result()
        (server.folder / token).touch()
        assert waiting.result(TIMEOUT)["result"]["content"][0]["text"] == f"stayed {token}"


def served_by(server: Any) -> int:
    """The bridge's own process."""
    return int(server.get_text("whoami"))


def changes(server: Any) -> int:
    """Return the number of received list_changed notifications."""
    return sum(message.get("method") == "notifications/tools/list_changed" for message in server.received)


def names_of(server: Any) -> set[str]:
    """Return the names of the listed tools."""
    return {tool["name"] for tool in server.send_request("tools/list").result(TIMEOUT)["result"]["tools"]}
