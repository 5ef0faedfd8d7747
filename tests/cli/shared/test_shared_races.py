"""Races of `serve --shared`: clients that start while a server ends, and servers that share a socket path."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kits.shared.shared_kit import TOOLS, find_servers, run_shared_server
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix sockets")
COMMAND: dict[str, Any] = {
    "mcpServers": {"other": {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", str(TOOLS)]}}
}


def find_socket(folder: Path) -> Path:
    (path,) = (folder / "state/mcp-bridge/shared").glob("*.sock")
    return path


@pytest.mark.parametrize(
    ("settings", "name", "is_same"),
    [
        ({}, "PATH", True),
        (COMMAND, "PATH", False),
        ({}, "PWD", True),
        (COMMAND, "PWD", True),
        ({"title": "${PWD:-none}"}, "PWD", False),
        ({"title": "PWD"}, "PWD", True),
        ({"title": "${USER:-none}"}, "USER", False),
    ],
)
def test_a_usual_variable_counts_if_a_reference_names_it_and_the_path_if_the_file_has_a_command(
    tmp_path: Path, settings: dict[str, Any], name: str, is_same: bool
) -> None:
    other_path = f"{os.environ['PATH']}:/nowhere" if name == "PATH" else "/nowhere"
    with run_shared_server(tmp_path, **settings) as start:
        first, second = start(stateless=True), start(stateless=True, **{name: other_path})
        assert (first.get_text("read_pid") == second.get_text("read_pid")) is is_same


def test_a_tool_that_changes_the_environment_does_not_make_the_server_end_early(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, **COMMAND) as start:
        tools = tmp_path / "own_tools.py"
        tools.write_text(tools.read_text() + "\nos.environ['PATH'] += ':/nowhere'\n")
        client = start(stateless=True)
        pid = client.get_text("read_pid")
        assert client.disconnect() == 0
        assert start(stateless=True).get_text("read_pid") == pid


def test_a_server_whose_socket_was_removed_leaves_that_of_the_next_one(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, shared={"idle": "100ms"}) as start:
        old = start(stateless=True)
        first = old.get_text("read_pid")
        find_socket(tmp_path).unlink()
        new = start(stateless=True)
        second = new.get_text("read_pid")
        assert second != first
        assert old.disconnect() == 0
        wait_until(lambda: find_servers(tmp_path) == [int(second)])
        assert start(stateless=True).get_text("read_pid") == second


def test_signals_to_a_server_that_ends_already_leave_the_socket_of_the_next_one(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, limits={"timeout": "10m", "drain": "60s"}) as start:
        old = start(stateless=True)
        old.get_text("read_pid")
        old.send_call("wait", seconds=300)
        old.get_text("read_pid")
        path = find_socket(tmp_path)
        process = int(path.with_suffix(".pid").read_text())
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: not path.exists())
        second = start(stateless=True).get_text("read_pid")
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: find_servers(tmp_path) == [int(second)])
        assert start(stateless=True).get_text("read_pid") == second


def test_clients_that_start_while_a_server_ends_are_all_served(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        for _ in range(3):
            known = start()
            known.get_text("read_pid")
            process = int(find_socket(tmp_path).with_suffix(".pid").read_text())
            clients = [start(initialize=False) for _ in range(4)]
            os.kill(process, signal.SIGTERM)
            for client in clients:
                assert "result" in client.request(
                    "initialize",
                    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
                )
