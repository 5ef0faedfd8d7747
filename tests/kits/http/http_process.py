"""`mcp-bridge serve --http` in a separate process, with its stderr."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from tests.kits.constants import TIMEOUT

URL = re.compile(r"(http://\S+?)/mcp")
TOOLS = '''
import sys
import threading
from pathlib import Path

import anyio

from mcp_bridge import tool


@tool
async def wait() -> str:
    """Wait until there is a file named `release`."""
    print("begun", file=sys.stderr, flush=True)
    while not Path("release").exists():
        await anyio.sleep(0.01)
    return "released"


@tool
def block() -> None:
    """Hold a thread for ever."""
    print("begun", file=sys.stderr, flush=True)
    threading.Event().wait()


@tool
def there() -> str:
    """Return at once."""
    return "there"
'''
SETTINGS = """
limits: {drain: 1h}
sources: [{type: python, path: tools.py}]
"""
"""Settings with a drain time of an hour, so a test fails if something waits for its end."""


def get_command(*arguments: str) -> list[str]:
    """Return the command line of a server."""
    return [sys.executable, "-m", "mcp_bridge", "serve", *arguments]


def fail_to_start(folder: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """Return the exit code and stderr of a start. It must fail."""
    (folder / "tools.py").write_text(TOOLS)
    ended = subprocess.run(
        get_command(*arguments), cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


class HttpServer:
    """A server process: its URL `base`, its log `stderr`, and its end."""

    def __init__(self, process: Process, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._news = anyio.Event()
        self.stderr = ""
        self.base = ""

    async def read_stderr(self) -> None:
        """Read its log until it ends."""
        assert self._process.stderr is not None
        async for text in TextReceiveStream(self._process.stderr):
            self.stderr += text
            self._news.set()

    async def wait_for_stderr(self, text: str, times: int = 1) -> None:
        """Wait until its log has a text so many times."""
        with anyio.fail_after(TIMEOUT):
            while self.stderr.count(text) < times:
                self._news = anyio.Event()
                await self._news.wait()

    @property
    def pid(self) -> int:
        """The id of the launched process."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def release(self) -> None:
        """Let the tool `wait` go on."""
        (self._folder / "release").touch()

    async def wait_until_draining(self) -> None:
        """Wait until it rejects new requests."""
        async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
            with anyio.fail_after(TIMEOUT):
                while (await http.get(f"{self.base}/health")).status_code != 503:  # noqa: ASYNC110 - a process
                    await anyio.sleep(0.01)

    async def wait(self) -> int:
        """Wait for its end and return the exit code."""
        with anyio.fail_after(TIMEOUT):
            return await self._process.wait()


@contextlib.asynccontextmanager
async def run_http_server(
    folder: Path, argv: Sequence[str] = (), env: Mapping[str, str] | None = None, *, settings: str = ""
) -> AsyncIterator[HttpServer]:
    """Yield a process that has printed its address."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "bridge.yaml").write_text(SETTINGS + settings)
    argv = argv or get_command("bridge.yaml", "--http", "127.0.0.1:0")
    env = {**os.environ, **(env or {})}
    async with (
        await anyio.open_process(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL) as process,
        anyio.create_task_group() as tasks,
    ):
        server = HttpServer(process, folder)
        tasks.start_soon(server.read_stderr)
        try:
            await server.wait_for_stderr("/mcp")
            server.base = URL.findall(server.stderr)[0]
            yield server
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
