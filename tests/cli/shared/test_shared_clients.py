"""Many clients share one server without noticing each other (`serve --shared`)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.shared.shared_kit import TOOLS, find_servers, run_shared_server
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix sockets")
LONG = {"limits": {"timeout": "10m"}}


def read_log(folder: Path) -> str:
    """Return the log of the servers of a folder."""
    return "".join(path.read_text() for path in (folder / "state/mcp-bridge/shared").glob("*.log"))


def test_ten_clients_of_both_eras_that_start_at_once_share_one_server(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        clients = [start(stateless=index % 2 == 1) for index in range(10)]
        assert len({client.get_text("read_pid") for client in clients}) == 1
        assert len(find_servers(tmp_path)) == 1


def test_ten_clients_share_the_servers_behind_the_bridge_too(tmp_path: Path) -> None:
    command = ["serve", str(TOOLS), "--no-guard"]
    servers = {"other": {"command": "python", "args": ["-m", "mcp_bridge", *command]}}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with run_shared_server(tmp_path, sources=[], mcpServers=servers) as start:
        clients = [start(stateless=True, **path) for _ in range(10)]
        assert len({client.get_text("other__read_pid") for client in clients}) == 1


@pytest.mark.parametrize("stateless", [False, True])
def test_each_client_has_its_own_session_and_principal(tmp_path: Path, stateless: bool) -> None:
    with run_shared_server(tmp_path) as start:
        first, second = start(stateless=stateless), start(stateless=stateless)
        assert first.get_text("remember", value="red") == "nothing"
        assert second.get_text("remember", value="blue") == "nothing"
        assert first.get_text("remember", value="green") == "red"
        assert first.get_text("read_principal") != second.get_text("read_principal")


def test_a_question_reaches_the_client_whose_call_asks(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        first, second = start(capabilities={"elicitation": {}}), start(capabilities={"elicitation": {}})
        response = first.send_call("ask_color")
        question = first.receive()
        assert question["method"] == "elicitation/create"
        assert second.get_text("read_pid")
        first.send(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": "red"}}}
        )
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "red"


def test_clients_with_other_values_of_a_variable_in_the_settings_get_another_server(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, title="${SHELF_KEY:-none}") as start:
        first, second = start(stateless=True, SHELF_KEY="1"), start(stateless=True, SHELF_KEY="1", UNRELATED="x")
        third = start(stateless=True, SHELF_KEY="2")
        assert first.get_text("read_variable") == second.get_text("read_variable") == "1"
        assert first.get_text("read_pid") == second.get_text("read_pid")
        assert third.get_text("read_variable") == "2"


def test_a_python_file_is_shared_as_well(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        file = tmp_path / "own_tools.py"
        assert start(file=file).get_text("read_pid") == start(file=file, stateless=True).get_text("read_pid")


def test_changed_settings_start_a_new_server_and_the_old_one_ends_with_its_clients(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        old = start(stateless=True)
        before = old.get_text("read_pid")
        file = tmp_path / "shelf.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "title": "New"}))
        new = start(stateless=True)
        after = new.get_text("read_pid")
        assert after != before
        assert old.get_text("read_pid") == before
        assert old.disconnect() == 0
        wait_until(lambda: find_servers(tmp_path) == [int(after)])


def test_a_server_waits_for_the_next_client_with_any_path_of_the_file(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(stateless=True)
        pid = client.get_text("read_pid")
        assert client.disconnect() == 0
        relative = Path(os.path.relpath(tmp_path / "shelf.json"))
        assert start(stateless=True, file=relative).get_text("read_pid") == pid


def test_a_server_without_clients_ends_after_a_while(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, shared={"idle": "200ms"}) as start:
        client = start(stateless=True)
        assert client.get_text("wait", seconds=0.5) == "waited"
        assert client.disconnect() == 0
        wait_until(lambda: not find_servers(tmp_path))
        assert not list((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert start(stateless=True).get_text("read_pid")


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(stateless=True)
        pid = client.get_text("read_pid")
        os.kill(int(pid), signal.SIGKILL)
        client.disconnect()
        wait_until(lambda: not find_servers(tmp_path))
        assert list((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert start(stateless=True).get_text("read_pid") != pid


@pytest.mark.parametrize("stateless", [False, True])
def test_a_client_survives_the_death_of_the_server(tmp_path: Path, stateless: bool) -> None:
    with run_shared_server(tmp_path, **LONG) as start:
        client = start(stateless=stateless)
        if not stateless:
            assert "result" in client.request("logging/setLevel", {"level": "debug"})
        pid = client.get_text("read_pid")
        response = client.send_call("wait", seconds=500)
        assert client.get_text("read_pid") == pid
        os.kill(int(pid), signal.SIGKILL)
        error = response.result(TIMEOUT)["error"]
        assert error["code"] == -32000
        assert "has ended" in error["message"]
        count = len(client.received)
        assert client.get_text("read_pid") != pid
        assert len(client.received) == count + 1, "the client sees no response to the replayed handshake"


def test_an_open_question_of_a_dead_server_is_cancelled_and_its_answer_dropped(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(capabilities={"elicitation": {}})
        pid = client.get_text("read_pid")
        call = client.send_call("ask_color")
        question = client.receive()
        os.kill(int(pid), signal.SIGKILL)
        assert "error" in call.result(TIMEOUT)
        assert {"requestId": question["id"]}.items() <= client.receive()["params"].items()
        response = client.send_call("ask_color")
        repetition = client.receive()
        client.send(
            {"jsonrpc": "2.0", "id": repetition["id"], "result": {"action": "accept", "content": {"value": "red"}}}
        )
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "red"


def test_the_end_of_input_ends_the_process_after_the_calls_in_flight(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(stateless=True)
        response = client.send_call("wait", seconds=0.5)
        client.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        client.close_input()
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "waited"
        assert client.process.wait(5) == 0
        assert find_servers(tmp_path)


def test_a_signal_lets_the_calls_in_flight_finish_and_rejects_new_ones(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, limits={"drain": "30s"}) as start:
        client = start(stateless=True)
        response = client.send_call("wait", seconds=1.5)
        assert client.get_text("read_pid"), "the first call has begun"
        client.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.request("tools/list").get("error"))
        assert response.result(TIMEOUT)["result"]["content"][0]["text"] == "waited"
        assert client.process.wait(5) == 0


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, **LONG) as start:
        client = start(stateless=True)
        response = client.send_call("wait", seconds=300)
        assert client.get_text("read_pid"), "the first call has begun"
        client.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.request("tools/list").get("error"))
        client.process.send_signal(signal.SIGTERM)
        assert response.result(TIMEOUT)["error"]["code"] == -32000
        assert client.process.wait(5) == 0


def test_the_call_of_a_client_that_was_killed_is_cancelled_and_the_others_go_on(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, **LONG, shared={"idle": "100ms"}) as start:
        first, second = start(stateless=True), start(stateless=True)
        assert first.get_text("read_pid") == second.get_text("read_pid")
        first.send_call("wait", seconds=300)
        first.process.kill()
        assert second.get_text("read_pid")
        assert second.disconnect() == 0
        wait_until(lambda: not find_servers(tmp_path))


def test_invalid_settings_end_the_process_as_in_serve(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, nonsense=1) as start:
        client = start(initialize=False)
        client.send_request("initialize")
        assert client.process.wait(TIMEOUT) == 2
        client.wait_for_stderr("nonsense")


def test_each_client_of_a_server_that_does_not_start_reports_why(tmp_path: Path) -> None:
    with run_shared_server(tmp_path, nonsense=1) as start:
        clients = [start(initialize=False) for _ in range(4)]
        for client in clients:
            client.send_request("initialize")
        for client in clients:
            assert client.process.wait(60) in {1, 2}
            wait_until(lambda client=client: "nonsense" in client.stderr or ".log" in client.stderr)
            # The log is named if another client has started the server.
            log = re.search(r"The reason is in (.+\.log)", client.stderr)
            assert "nonsense" in (Path(log[1]).read_text() if log is not None else client.stderr)


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(file=tmp_path / "missing.yaml", initialize=False)
        assert client.process.wait(60) == 2
        client.wait_for_stderr("no such file")


def test_settings_that_became_invalid_are_reported_and_the_client_can_retry(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start()
        pid = int(client.get_text("read_pid"))
        file = tmp_path / "shelf.json"
        valid = file.read_text()
        file.write_text(json.dumps({**json.loads(valid), "nonsense": 1}))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not find_servers(tmp_path))
        error = client.request("tools/list")["error"]
        assert (error["code"], "has not run" in error["message"]) == (-32000, True)
        log = error["message"].partition("The reason is in ")[2]
        assert "nonsense" in Path(log).read_text()
        file.unlink()
        assert "No such file" in client.request("tools/list")["error"]["message"]
        file.write_text(valid)
        assert client.get_text("read_pid")


def test_two_threads_that_write_large_messages_do_not_block_each_other(tmp_path: Path) -> None:
    """The relay reads and writes in both directions with limited buffers."""
    with run_shared_server(tmp_path) as start:
        client = start(stateless=True)
        text = "x" * 200_000
        responses = [client.send_call("remember", value=text) for _ in range(50)]
        assert all("result" in response.result(TIMEOUT) for response in responses)


def test_the_socket_and_its_folder_are_only_for_their_owner(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        start(stateless=True).get_text("read_pid")
        path = next((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_can_use_is_rejected(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        folder = tmp_path / "state/mcp-bridge/shared"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        client = start(initialize=False)
        assert client.process.wait(60) == 1
        client.wait_for_stderr("other users can use the folder")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_disconnected(tmp_path: Path) -> None:
    with run_shared_server(tmp_path) as start:
        client = start(stateless=True)
        client.get_text("read_pid")
        path = next((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert connect_as(12345, path) == b""
        assert "another user" in read_log(tmp_path)
        assert client.get_text("read_pid")


def connect_as(user: int, path: Path) -> bytes:
    """Connect as another user with access to the socket, and return the response of the server."""
    code = (
        "import ctypes, os, socket, sys\n"
        f"os.setresuid(0, {user}, 0)\n"
        # Paths are resolved as root.
        "ctypes.CDLL(None).setfsuid(0)\n"
        "connected = socket.socket(socket.AF_UNIX)\n"
        "connected.connect(sys.argv[1])\n"
        "sys.stdout.buffer.write(connected.recv(100))\n"
    )
    return subprocess.run([sys.executable, "-c", code, str(path.resolve())], check=True, stdout=subprocess.PIPE).stdout
