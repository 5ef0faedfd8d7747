"""`serve --shared`, `shared` and approvals in a terminal on Windows, where there are no Unix sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.server_process import ClientProfile, StdioServerProcess, Way
from tests.kits.constants import TIMEOUT
from tests.kits.platforms.simulated_systems import SimulatedComputer
from tests.kits.shared.shared_kit import TOOLS, end_servers, find_servers
from tests.kits.waiting import wait_until

StartClient = Callable[[], StdioServerProcess]


@pytest.fixture
def start_client(windows: SimulatedComputer) -> Iterator[StartClient]:
    """Yield a function that starts clients of one shared server. End all processes after the test."""
    (windows.folder / "own_tools.py").write_text(TOOLS.read_text("utf-8"), "utf-8")
    clients: list[StdioServerProcess] = []

    def start() -> StdioServerProcess:
        command = [str(windows.python), "-m", "mcp_bridge", "serve", "--shared", "own_tools.py"]
        way, profile = Way("stdio", False), ClientProfile({})
        client = StdioServerProcess(command, way, profile, env=windows.environment, folder=windows.folder)
        clients.append(client)
        return client

    try:
        yield start
    finally:
        for client in clients:
            client.close()
        # The command line of a server has the path in JSON, with escaped letters.
        end_servers(windows.root)


def get_endpoint(windows: SimulatedComputer) -> Path:
    [path] = (windows.home / "AppData/Local/mcp-bridge/shared").glob("*.sock")
    return path


def replace_port(windows: SimulatedComputer, port: int) -> Path:
    """Write another port into the endpoint of the shared server, and return the path of the endpoint."""
    path = get_endpoint(windows)
    path.write_text(json.dumps({**json.loads(path.read_text()), "port": port}))
    return path


def kill_server(client: StdioServerProcess) -> str:
    """Kill the server of a client. Return its process id, once the client has noticed its end."""
    pid = client.get_text("read_pid")
    call = client.send_call("wait", seconds=600)
    # A later call has a result, so the server has received this one. Otherwise the next server would run it.
    assert client.get_text("read_pid") == pid
    os.kill(int(pid), 9)
    assert "error" in call.result(TIMEOUT)
    return pid


def test_clients_share_a_server_that_a_command_lists_and_stops(
    windows: SimulatedComputer, start_client: StartClient
) -> None:
    first, second = start_client(), start_client()
    pid = first.get_text("read_pid")
    assert second.get_text("read_pid") == pid
    assert first.get_text("remember", value="red") == "nothing"
    [server] = json.loads(windows.run("shared", "--json").stdout)
    assert (server["file"], server["clients"]) == (str(windows.folder / "own_tools.py"), 2)
    # A call in flight still gets its result.
    response = first.send_call("wait", seconds=1)
    first.get_text("read_pid")
    stop = windows.run("shared", "--stop")
    assert (stop.returncode, stop.stderr) == (0, f"stopping: {server['file']} (process {server['pid']})\n")
    assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "waited"
    wait_until(lambda: not find_servers(windows.root))
    assert first.get_text("read_pid") != pid


def test_a_client_gets_its_last_responses_after_the_end_of_its_input(start_client: StartClient) -> None:
    client = start_client()
    response = client.send_call("wait", seconds=0.5)
    client.close_input()
    assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "waited"
    assert client.wait() == 0


def test_a_client_starts_another_server_if_a_program_has_the_port_of_a_killed_one(
    windows: SimulatedComputer, start_client: StartClient
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        client = start_client()
        pid = kill_server(client)
        replace_port(windows, other.getsockname()[1])
        response = client.send_call("read_pid")
        impostor, _ = other.accept()
        with impostor:
            # The token of the killed server and the name of the client are all that an impostor gets.
            assert len(impostor.recv(97, socket.MSG_WAITALL)) == 97
            impostor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert impostor.recv(1) == b""
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] != pid


def test_a_client_keeps_the_file_of_a_server_that_has_started_meanwhile(
    windows: SimulatedComputer, start_client: StartClient
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as new_server:
        new_server.settimeout(TIMEOUT)
        client = start_client()
        pid = kill_server(client)
        path = replace_port(windows, other.getsockname()[1])
        response = client.send_call("read_pid")
        impostor, _ = other.accept()
        with impostor:
            assert len(impostor.recv(97, socket.MSG_WAITALL)) == 97
            port = new_server.getsockname()[1]
            path.write_text(json.dumps({"port": port, "token": "0" * 64, "proof": "1" * 64}))
        connection, _ = new_server.accept()
        with connection:
            assert connection.recv(64, socket.MSG_WAITALL) == b"0" * 64
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] != pid


def test_a_client_in_a_virtual_environment_starts_a_server_in_it(windows: SimulatedComputer) -> None:
    (windows.folder / "tools.py").write_text(
        "import sys\nfrom mcp_bridge import tool\n\n@tool\ndef find_python() -> str:\n    return sys.executable\n"
    )
    python = windows.add_environment("venv.exe")
    command = [str(python), "-m", "mcp_bridge", "serve", "--shared", "tools.py"]
    way, profile = Way("stdio", False), ClientProfile({})
    client = StdioServerProcess(command, way, profile, env=windows.environment, folder=windows.folder)
    try:
        assert client.get_text("find_python") == str(python)
    finally:
        client.close()
        end_servers(windows.root)


@pytest.mark.parametrize(
    "token", [b"0" * 64, b"GET /page/state HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 64, b"STOP" * 16]
)
def test_a_program_without_the_token_gets_no_response_and_stops_nothing(
    windows: SimulatedComputer, start_client: StartClient, token: bytes
) -> None:
    client = start_client()
    pid = client.get_text("read_pid")
    port = json.loads(get_endpoint(windows).read_text())["port"]
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        connection.sendall(token[:64])
        assert connection.recv(1) == b""
    assert client.get_text("read_pid") == pid


def test_a_user_at_a_terminal_connects_to_a_server_that_asks(windows: SimulatedComputer) -> None:
    (windows.folder / "tools.py").write_text(
        "from mcp_bridge import tool\n\n@tool\ndef greet(name: str) -> str:\n    '''Greet.'''\n    return name\n"
    )
    settings = {
        "sources": [{"type": "python", "path": "tools.py"}],
        "policy": [{"approval": {}}],
        "approvals": {"terminal": "30s"},
    }
    file = windows.folder / "shelf.json"
    file.write_text(json.dumps(settings))
    command = [str(windows.python), "-m", "mcp_bridge", "serve", "shelf.json"]
    way, profile = Way("stdio", False), ClientProfile({})
    server = StdioServerProcess(command, way, profile, env=windows.environment, folder=windows.folder)
    try:
        with windows.start("approvals", "shelf.json") as user:
            response = server.send_call("greet", name="Ada")
            assert user.stdin is not None
            assert user.stderr is not None
            lines = []
            while not any("greet" in line and "1" in line for line in lines):
                lines.append(user.stderr.readline())
                assert lines[-1], lines
            user.stdin.write("y 1\n")
            user.stdin.flush()
            assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "Ada"
    finally:
        server.close()
