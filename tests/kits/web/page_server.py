"""A server with the web page as a real process, and its clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.kits.constants import TIMEOUT

HERE = Path(__file__).parent
TOKEN = "a-token-of-the-shop-0123456789"
LEGACY, STATELESS = "legacy", "2026-07-28"
SETTINGS = """
name: shop
title: Shop
instructions: Take items one at a time.
http: {page: true, token_env: SHOP_TOKEN}
state: {store: "sqlite:decisions.sqlite3"}
approvals: {terminal: 30s}
sources:
  - {type: python, path: shop.py}
  - type: amplifier
    plan:
      hooks: [{module: guard, source: guard.py}]
"""
GUARD = '''
from mcp_bridge.amplifier import HookResult


async def guard(event, data):
    """Ask before more than five items are taken."""
    if data["tool_name"] == "take" and data["tool_input"].get("amount", 1) > 5:
        return HookResult(action="ask_user", approval_prompt=f"Take {data['tool_input']['amount']} items?")
    return HookResult(action="continue")


async def mount(coordinator, config):
    return coordinator.hooks.register("tool:pre", guard, name="guard")
'''


class PageServer:
    """A `mcp-bridge serve` process in a separate folder. After `stop`, `start` uses the same port again."""

    def __init__(self, folder: Path, settings: str = SETTINGS, options: Sequence[str] = (), **variables: str) -> None:
        self.folder = folder
        self.port = 0
        self.base = ""
        self._options = options
        self._variables = {"SHOP_TOKEN": TOKEN, "HOME": str(folder), **variables}
        shutil.copy(HERE / "shop.py", folder)
        (folder / "guard.py").write_text(GUARD)
        (folder / "bridge.yaml").write_text(settings)

    @property
    def address(self) -> str:
        """The address of the page with the token."""
        return f"{self.base}/#token={TOKEN}"

    def start(self) -> None:
        """Start the process and wait until it listens."""
        command = [sys.executable, "-m", "mcp_bridge", "serve", "bridge.yaml", "--http", f"127.0.0.1:{self.port}"]
        command += self._options
        environment = {**os.environ, **self._variables}
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        lines: list[str] = []
        for line in self._process.stderr or ():
            lines.append(line)
            if match := re.search(r"(http://127\.0\.0\.1:(\d+))/mcp", line):
                self.base, self.port = match[1], int(match[2])
                break
        else:
            raise AssertionError("".join(lines))
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()


class OtherClients:
    """Official clients of a server, each in a thread, because the browser's driver has the loop of the main thread."""

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self._threads = ThreadPoolExecutor(8)

    def call(self, name: str, arguments: dict[str, Any] | None = None, mode: str = STATELESS) -> Future[Any]:
        """Call a tool as a client without user interaction. The future has the result."""
        return self.use(lambda client: client.call_tool(name, arguments or {}), mode)

    def use(self, work: Callable[[Client], Any], mode: str = STATELESS) -> Future[Any]:
        """Connect a client and await `work` with it."""

        async def run() -> Any:
            headers = {"authorization": f"Bearer {TOKEN}"}
            with anyio.fail_after(TIMEOUT):
                async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http_client:
                    streams = streamable_http_client(f"{self._server.base}/mcp", http_client=http_client)
                    async with Client(streams, mode=mode) as client:
                        return await work(client)

        return self._threads.submit(anyio.run, run)

    def close(self) -> None:
        """Wait for the threads."""
        self._threads.shutdown()
