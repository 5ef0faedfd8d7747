"""A real Redis for tests: `redis_server` yields its URL, and stops it after the test."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.upstream.upstream_kit import find_free_port


class RedisServer:
    """A redis-server on a loopback port. A test can kill it and start it again with its data (`appendfsync always`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "appendonly": "yes"}
        options |= {"appendfsync": "always", "save": "", "loglevel": "warning"}
        command = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(["redis-server", *command], stdout=log, stderr=log)
        limit = time.monotonic() + 20
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"redis-server does not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.01)

    def kill(self) -> None:
        """End the server as `kill -9` does."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop the server as SIGSTOP does: the kernel accepts connections and requests, and nothing responds."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `freeze`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


@pytest.fixture
def redis_process() -> Iterator[RedisServer]:
    """Yield a running Redis that a test can kill and start again."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def redis_server(redis_process: RedisServer) -> str:
    """The URL of a running, empty Redis."""
    return redis_process.url
