"""`shared list` and `shared stop`, the options of `serve --shared`, and `install --shared`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._cli.shared.instance import SharedInstance
from mcp_bridge._cli.shared.launch import connect_to_instance
from tests.client.server_process import StdioServerProcess
from tests.kits.constants import TIMEOUT
from tests.kits.shared.shared_kit import find_servers, run_shared_server
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix sockets")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the environment of the servers of a folder."""
    env = {**os.environ, "XDG_STATE_HOME": str((folder / "state").resolve()), "HOME": str(folder)}
    command = [sys.executable, "-m", "mcp_bridge", *words]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=60)


def wait_until_ready(client: StdioServerProcess) -> StdioServerProcess:
    """Wait until the client's server runs, and return the client."""
    client.get_text("read_pid")
    return client


def test_running_servers_are_listed_with_their_clients(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        assert "no shared server is running" in run(tmp_path, "shared").stderr
        wait_until_ready(start(stateless=True))
        wait_until_ready(start(stateless=True))
        servers = json.loads(run(tmp_path, "shared", "--json").stdout)
        assert [(server["file"], server["clients"]) for server in servers] == [(str(tmp_path / "shelf.json"), 2)]
        assert "shelf.json" in run(tmp_path, "shared").stdout


def test_a_stopped_server_starts_again_with_the_next_call(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = wait_until_ready(start(stateless=True))
        pid = client.get_text("read_pid")
        response = client.send_call("wait", seconds=1)
        client.get_text("read_pid")
        assert "stopping" in run(tmp_path, "shared", "--stop", str(tmp_path / "shelf.json")).stderr
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "waited"
        wait_until(lambda: not find_servers(tmp_path))
        assert client.get_text("read_pid") != pid


def test_a_server_without_clients_is_stopped_at_once(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        assert wait_until_ready(start(stateless=True)).disconnect() == 0
        assert run(tmp_path, "shared", "--stop").returncode == 0
        wait_until(lambda: not find_servers(tmp_path), timeout=20)
        assert json.loads(run(tmp_path, "shared", "--json").stdout) == []


def test_stopping_a_server_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        wait_until_ready(start(stateless=True))
        assert run(tmp_path, "shared", "--stop", "another.yaml").returncode == 3
        assert find_servers(tmp_path)


@pytest.mark.parametrize("option", [["--http", "8808"], ["--token-env", "HOME"]])
def test_options_of_http_are_rejected(tmp_path: Path, option: list[str]) -> None:
    with run_shared_server(tmp_path):
        result = run(tmp_path, "serve", "--shared", "shelf.json", *option)
        assert result.returncode == 2
        assert option[0] in result.stderr


def test_the_default_file_of_the_folder_is_shared(tmp_path: Path) -> None:
    with run_shared_server(tmp_path):
        (tmp_path / "own_tools.py").rename(tmp_path / "tools.py")
        assert run(tmp_path, "serve", "--shared").returncode == 0
        assert "tools.py" in run(tmp_path, "shared").stdout


def test_help_is_printed_instead_of_serving(tmp_path: Path) -> None:
    result = run(tmp_path, "serve", "--shared", "--help")
    assert "--shared" in result.stdout
    assert result.returncode == 0


def test_install_shared_writes_the_option_and_checks_the_server(tmp_path: Path) -> None:
    with run_shared_server(tmp_path):
        result = run(tmp_path, "install", "cursor", "shelf.json", "--shared")
        assert result.returncode == 0, result.stderr
        entry = json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["shelf"]
        assert entry["args"][-3:] == ["serve", "--shared", str(tmp_path / "shelf.json")]
        second = run(tmp_path, "install", "cursor", "shelf.json", "--shared")
        assert "already installed" in second.stderr


def test_install_shared_rejects_a_url(tmp_path: Path) -> None:
    result = run(tmp_path, "install", "cursor", "http://127.0.0.1:8808/mcp", "--shared")
    assert result.returncode == 2
    assert "--shared" in result.stderr


def test_the_process_of_a_killed_server_is_forgotten_before_the_next_one_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The length of a socket's path is limited.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    instance = SharedInstance("tools.py", ServeOptions(), str(tmp_path), folder / "a.sock", folder / "a.log")
    instance.pid_file.write_text("1")

    def fail_start(*args: Any, **options: Any) -> None:
        assert instance.socket.exists()
        raise OSError(f"the file is {'there' if instance.pid_file.exists() else 'gone'}")

    monkeypatch.setattr(subprocess, "Popen", fail_start)
    with pytest.raises(OSError, match="the file is gone"):
        connect_to_instance(instance)
    shutil.rmtree(folder)
