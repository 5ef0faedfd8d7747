"""The bridge as the Node clients meet it: a command that speaks MCP on stdio, and a running HTTP server."""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from toolchain import HERE

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
def served(folder: Path) -> Iterator[Addresses]:
    """An HTTP server on a free port, run in that folder. Raises RuntimeError when it does not come up."""
    with subprocess.Popen(
        (*COMMAND, "--http", "127.0.0.1:0"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
    ) as server:
        assert server.stderr is not None
        said: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=pump, args=(server.stderr, said), name="server-stderr")
        reader.start()
        try:
            url = bound_url(said)
            yield Addresses(stdio=COMMAND, http=url, sse=f"{url.removesuffix('/mcp')}/sse")
        finally:
            stop(server)
            reader.join(STOP_TIMEOUT)


def pump(lines: IO[str], said: queue.Queue[str | None]) -> None:
    """Pass on every line, so that the server never waits for a reader; None at the end."""
    for line in lines:
        said.put(line)
    said.put(None)


def bound_url(said: queue.Queue[str | None]) -> str:
    """The URL that the server says it listens at. Raises RuntimeError with all it said instead."""
    heard: list[str] = []
    while True:
        try:
            line = said.get(timeout=START_TIMEOUT)
        except queue.Empty:
            raise RuntimeError(f"no URL within {START_TIMEOUT:.0f} s; the server said:\n{''.join(heard)}") from None
        if line is None:
            raise RuntimeError(f"the server ended without a URL; it said:\n{''.join(heard)}")
        if found := BOUND.search(line):
            return found[0]
        heard.append(line)


def stop(server: subprocess.Popen[str]) -> None:
    """End the server, kindly first."""
    server.terminate()
    try:
        server.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
