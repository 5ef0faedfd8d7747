"""Runs the commands `dev` and `top` as processes, and waits for texts in their output."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from tests.kits.constants import TIMEOUT

COMMAND = (sys.executable, "-m", "mcp_bridge")
PAGE = re.compile(r"Page: ((http://\S+?)/#token=(\S+))\n")
TOOLS = '''
from mcp_bridge import tool


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b
'''


class RunningCommand:
    """A process and its output."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.out = self.errors = ""
        self._news = anyio.Event()

    async def read_output(self) -> None:
        assert self.process.stdout is not None
        async for text in TextReceiveStream(self.process.stdout, errors="replace"):
            self.out += text
            self._news.set()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        async for text in TextReceiveStream(self.process.stderr, errors="replace"):
            self.errors += text
            self._news.set()

    async def wait_for(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Wait until the output matches a pattern."""
        with anyio.fail_after(TIMEOUT):
            while (match := re.search(pattern, self.out + "\n" + self.errors)) is None:
                self._news = anyio.Event()
                await self._news.wait()
        return match

    async def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        with anyio.fail_after(TIMEOUT):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def run_command(folder: Path, *arguments: str, **environ: str) -> AsyncIterator[RunningCommand]:
    """Run the command in a folder with the file of a tool."""
    (folder / "tools.py").write_text(TOOLS) if not (folder / "tools.py").exists() else None
    env = {**os.environ, **environ}
    async with (
        await anyio.open_process([*COMMAND, *arguments], cwd=folder, env=env, stdin=subprocess.DEVNULL) as process,
        anyio.create_task_group() as tasks,
    ):
        running = RunningCommand(process)
        tasks.start_soon(running.read_output)
        tasks.start_soon(running.read_errors)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
