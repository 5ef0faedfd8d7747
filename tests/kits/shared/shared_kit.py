"""Real clients of a shared server: each starts `serve --shared` and talks to it in lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.kits.constants import ENVELOPE, HANDSHAKE, TIMEOUT

TOOLS = Path(__file__).with_name("shared_tools.py")


class SharedClient:
    """One client, of either era."""

    def __init__(self, file: Path, env: Mapping[str, str], *options: str, stateless: bool = False) -> None:
        self._numbers = itertools.count(1)
        self._stateless = stateless
        self._lines = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcp_bridge", "serve", "--shared", str(file), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
        )

    def begin(self, **capabilities: Any) -> SharedClient:
        """Shake hands."""
        params = {
            "protocolVersion": HANDSHAKE,
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.request("initialize", params)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def write(self, message: Any) -> None:
        """Write a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        number = next(self._numbers)
        meta = {"_meta": ENVELOPE} if self._stateless else {}
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": {**(params or {}), **meta}})
        return number

    def read(self) -> Any:
        """Return the next message, None at the end."""
        assert self.process.stdout is not None
        end = time.monotonic() + TIMEOUT
        while b"\n" not in self._lines:
            assert select.select([self.process.stdout], [], [], end - time.monotonic())[0], "no message came"
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self._lines += data
        line, _, self._lines = self._lines.partition(b"\n")
        return json.loads(line)

    def response(self, number: int) -> Any:
        """Return the response to a request; what comes before is dropped."""
        while (message := self.read()).get("id") != number or "method" in message:
            pass
        return message

    def request(self, method: str, params: Any = None) -> Any:
        """Send a request and return its response."""
        return self.response(self.send(method, params))

    def send_call(self, name: str, **arguments: Any) -> int:
        """Send a call; its id."""
        return self.send("tools/call", {"name": name, "arguments": arguments})

    def call(self, name: str, **arguments: Any) -> Any:
        """Return the text of the result of a call."""
        message = self.response(self.send_call(name, **arguments))
        return message["result"]["content"][0]["text"]

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def leave(self) -> int:
        """Disconnect; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(TIMEOUT)


@contextlib.contextmanager
def sharing(folder: Path, **settings: Any) -> Iterator[Any]:
    """Settings for a shared server, and a function that starts clients of it. All servers are ended at the end."""
    (folder / "own_tools.py").write_text(TOOLS.read_text("utf-8"), "utf-8")
    file = folder / "shelf.json"
    file.write_text(json.dumps({"sources": [{"type": "python", "path": "own_tools.py"}], **settings}))
    state = Path(tempfile.mkdtemp())  # the length of a socket's path is limited, and that of the folder may not be
    (folder / "state").symlink_to(state)
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    clients: list[SharedClient] = []

    def start(*options: str, stateless: bool = False, file: Path = file, **variables: str) -> SharedClient:
        clients.append(SharedClient(file, {**env, **variables}, *options, stateless=stateless))
        return clients[-1]

    try:
        yield start
    finally:
        for client in clients:
            client.end()
        end_servers(folder)
        shutil.rmtree(state)


def find_servers(folder: Path) -> list[int]:
    """Return the processes that serve files of a folder, without their supervisors."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            is_live = process.status() != psutil.STATUS_ZOMBIE
            if "_cli.shared.server" in line and str(folder) in line and is_live:
                found.append((process.pid, process.ppid()))
    parents = {parent for _, parent in found}
    return [pid for pid, _ in found if pid not in parents]


def end_servers(folder: Path) -> None:
    """Kill what is left."""
    while pids := find_servers(folder):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        time.sleep(0.05)
