"""Cancelling a call in a worker ends the programs of the call, but neither the worker nor other programs."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import psutil
import pytest

from mcp_bridge import open_bridge
from mcp_bridge.amplifier.testing import wait_for
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.hooks.hooks_kit import get_texts

TOOLS = """
import asyncio, os, subprocess, sys, time
from mcp_bridge import tool

HELPER = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
time.sleep(1.1)  # older than the call, also by a clock of whole seconds

@tool
async def shell(pid_file: str) -> None:
    "Run a program in a session of its own, as shells do."
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(60)", start_new_session=True
    )
    with open(pid_file, "w") as file:
        file.write(str(started.pid))
    await started.wait()

@tool
def list_pids() -> list[int]:
    "Return the process of the tools, and that of the helper, if it runs."
    return [os.getpid(), HELPER.pid] if HELPER.poll() is None else [os.getpid()]
"""
SETTINGS = "sources:\n  - {type: python, path: programs_of_calls.py, isolation: {workers: 1}}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="programs in sessions of their own")
async def test_a_cancelled_call_ends_its_programs_and_no_others(tmp_path: Path) -> None:
    write_files(tmp_path, {"programs_of_calls.py": TOOLS, "bridge.yaml": SETTINGS})
    pid_file = tmp_path / "pid"
    async with open_bridge(tmp_path / "bridge.yaml") as bridge, connect(bridge) as client:
        before = await client.call_tool("list_pids")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "shell", {"pid_file": str(pid_file)})
            assert await wait_for(lambda: pid_file.exists() and pid_file.read_text() != "", 10)
            tasks.cancel_scope.cancel()
        pid = int(pid_file.read_text())
        assert await wait_for(lambda: not psutil.pid_exists(pid) or _is_zombie(pid), 10)
        assert get_texts(await client.call_tool("list_pids")) == get_texts(before)
        assert len(get_texts(before)[0].split(",")) == 2


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
