"""HTTP connections cannot take the file descriptors needed by the rest of the server."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from tests.client.server_process import HttpServerProcess
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import SECOND_WAY, run_server
from tests.kits.waiting import wait_until

resource = pytest.importorskip("resource")
LIMIT = 256
"""A soft and hard limit in place of the usual 1,024: fewer connections show the same."""


def connect(server: HttpServerProcess) -> socket.socket:
    host, _, port = server.base.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT)


def test_the_soft_limit_of_descriptors_is_raised_at_the_start(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low_limit = min(soft, 1024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (low_limit, hard))
    try:
        with run_server(SECOND_WAY, tmp_path) as server:
            new_limit = min(65_536, hard) if hard != resource.RLIM_INFINITY else 65_536
            assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[0] == max(low_limit, new_limit)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_of_one_client_give_way_to_others_before_descriptors_run_out(tmp_path: Path) -> None:
    with run_server(SECOND_WAY, tmp_path) as server, contextlib.ExitStack() as opened:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        connections = [opened.enter_context(connect(server)) for _ in range(LIMIT - LIMIT // 4 + 10)]
        assert connections[0].recv(4096) == b""
        assert server.get_text("echo", text="still here") == "still here"
        for connection in connections:
            connection.close()
        wait_until(lambda: server.get_text("echo", text="still here") == "still here")
    assert "out of resources" not in server.stderr
