"""The servers for the clients in Node: a command for stdio, and an HTTP server process."""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.kits.node.toolchain import HERE

COMMAND = (sys.executable, "-m", "mcp_bridge", "serve", str(HERE / "tools.py"))
BOUND = re.compile(r"http://127\.0\.0\.1:\d+/mcp")
START_TIMEOUT = 60.0
STOP_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The ways to the same tools: a command, and the URLs of a running server."""

    stdio: tuple[str, ...]
    http: str
    sse: str


@contextlib.contextmanager
def serve_tools(folder: Path) -> Iterator[Addresses]:
    """Run an HTTP server on a free port in that folder. Raises RuntimeError if it does not start or ends early."""
    with run_server((*COMMAND, "--http", "127.0.0.1:0"), folder) as url:
        yield Addresses(stdio=COMMAND, http=url, sse=f"{url.removesuffix('/mcp')}/sse")


@contextlib.contextmanager
def run_server(command: Sequence[str], folder: Path) -> Iterator[str]:
    """Run a server in a separate process, and yield its URL. Raises RuntimeError if it does not start or ends early."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
    ) as server:
        assert server.stderr is not None
        output: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=pump, args=(server.stderr, output), name="server-stderr")
        reader.start()
        try:
            yield wait_for_url(output)
            if server.poll() is not None:
                raise RuntimeError(f"the server ended by itself; its output:\n{''.join(read_lines(output))}")
        finally:
            stop(server)
            reader.join(STOP_TIMEOUT)


def read_lines(output: queue.Queue[str | None]) -> Iterator[str]:
    """Yield all lines of a server that has ended."""
    while (line := output.get(timeout=STOP_TIMEOUT)) is not None:
        yield line


def pump(lines: IO[str], output: queue.Queue[str | None]) -> None:
    """Put each line into the queue, so that the server never waits for a reader, and None at the end."""
    for line in lines:
        output.put(line)
    output.put(None)


def wait_for_url(output: queue.Queue[str | None]) -> str:
    """Return the URL in the output of the server. Raises RuntimeError with the output if there is none."""
    lines: list[str] = []
    while True:
        try:
            line = output.get(timeout=START_TIMEOUT)
        except queue.Empty:
            raise RuntimeError(f"no URL within {START_TIMEOUT:.0f} s; its output:\n{''.join(lines)}") from None
        if line is None:
            raise RuntimeError(f"the server ended without a URL; its output:\n{''.join(lines)}")
        if match := BOUND.search(line):
            return match[0]
        lines.append(line)


def stop(server: subprocess.Popen[str]) -> None:
    """Terminate the server, and kill it if it does not end."""
    server.terminate()
    try:
        server.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
