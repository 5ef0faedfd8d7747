"""Many clients share one server without noticing each other (`serve --shared`)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.kits.shared.shared_kit import TOOLS, find_servers, sharing
from tests.kits.survival.isolation_live import eventually

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix sockets")
LONG = {"limits": {"timeout": "10m"}}


def read_log(folder: Path) -> str:
    """Return the log of the servers of a folder."""
    return "".join(path.read_text() for path in (folder / "state/mcp-bridge/shared").glob("*.log"))


def test_ten_clients_of_both_eras_that_start_at_once_share_one_server(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        clients = [start(stateless=index % 2 == 1) for index in range(10)]
        for client in clients[::2]:
            client.begin()
        assert len({client.call("read_pid") for client in clients}) == 1
        assert len(find_servers(tmp_path)) == 1


def test_ten_clients_share_the_servers_behind_the_bridge_too(tmp_path: Path) -> None:
    command = ["serve", str(TOOLS), "--no-guard"]
    servers = {"other": {"command": "python", "args": ["-m", "mcp_bridge", *command]}}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with sharing(tmp_path, sources=[], mcpServers=servers) as start:
        clients = [start(stateless=True, **path) for _ in range(10)]
        assert len({client.call("other__read_pid") for client in clients}) == 1


@pytest.mark.parametrize("stateless", [False, True])
def test_each_client_has_its_own_session_and_principal(tmp_path: Path, stateless: bool) -> None:
    with sharing(tmp_path) as start:
        first, second = start(stateless=stateless), start(stateless=stateless)
        if not stateless:
            first.begin()
            second.begin()
        assert first.call("remember", value="red") == "nothing"
        assert second.call("remember", value="blue") == "nothing"
        assert first.call("remember", value="green") == "red"
        assert first.call("read_principal") != second.call("read_principal")


def test_a_question_reaches_the_client_whose_call_asks(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        first, second = start().begin(elicitation={}), start().begin(elicitation={})
        number = first.send_call("ask_color")
        question = first.read()
        assert question["method"] == "elicitation/create"
        assert second.call("read_pid")
        first.write(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": "red"}}}
        )
        assert first.response(number)["result"]["content"][0]["text"] == "red"


def test_clients_with_other_values_of_a_variable_in_the_settings_get_another_server(tmp_path: Path) -> None:
    with sharing(tmp_path, title="${SHELF_KEY:-none}") as start:
        first, third = start(stateless=True, SHELF_KEY="1"), start(stateless=True, SHELF_KEY="1", UNRELATED="x")
        second = start(stateless=True, SHELF_KEY="2")
        assert first.call("read_variable") == third.call("read_variable") == "1"
        assert first.call("read_pid") == third.call("read_pid")
        assert second.call("read_variable") == "2"


def test_a_python_file_is_shared_as_well(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        file = tmp_path / "own_tools.py"
        assert start(file=file).begin().call("read_pid") == start(file=file, stateless=True).call("read_pid")


def test_changed_settings_start_a_new_server_and_the_old_one_ends_with_its_clients(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        old = start(stateless=True)
        before = old.call("read_pid")
        file = tmp_path / "shelf.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "title": "New"}))
        new = start(stateless=True)
        after = new.call("read_pid")
        assert after != before
        assert old.call("read_pid") == before
        assert old.leave() == 0
        eventually(lambda: find_servers(tmp_path) == [int(after)])


def test_a_server_waits_for_the_next_client_with_any_path_of_the_file(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start(stateless=True)
        pid = client.call("read_pid")
        assert client.leave() == 0
        relative = Path(os.path.relpath(tmp_path / "shelf.json"))
        assert start(stateless=True, file=relative).call("read_pid") == pid


def test_a_server_without_clients_ends_after_a_while(tmp_path: Path) -> None:
    with sharing(tmp_path, shared={"idle": "200ms"}) as start:
        client = start(stateless=True)
        assert client.call("wait", seconds=0.5) == "waited"
        assert client.leave() == 0
        eventually(lambda: not find_servers(tmp_path))
        assert not list((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert start(stateless=True).call("read_pid")


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start(stateless=True)
        pid = client.call("read_pid")
        os.kill(int(pid), signal.SIGKILL)
        client.leave()
        eventually(lambda: not find_servers(tmp_path))
        assert list((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert start(stateless=True).call("read_pid") != pid


@pytest.mark.parametrize("stateless", [False, True])
def test_a_client_survives_the_death_of_the_server(tmp_path: Path, stateless: bool) -> None:
    with sharing(tmp_path, **LONG) as start:
        client = start(stateless=stateless)
        if not stateless:
            client.begin()
            assert "result" in client.request("logging/setLevel", {"level": "debug"})
        pid = client.call("read_pid")
        number = client.send_call("wait", seconds=500)
        assert client.call("read_pid") == pid
        os.kill(int(pid), signal.SIGKILL)
        error = client.response(number)["error"]
        assert error["code"] == -32000
        assert "has ended" in error["message"]
        number = client.send_call("read_pid")
        message = client.read()
        assert message["id"] == number, "the client sees no response to the replayed handshake"
        assert message["result"]["content"][0]["text"] != pid


def test_an_open_question_of_a_dead_server_is_cancelled_and_its_answer_dropped(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start().begin(elicitation={})
        pid = client.call("read_pid")
        client.send_call("ask_color")
        question = client.read()
        os.kill(int(pid), signal.SIGKILL)
        messages = [client.read(), client.read()]
        assert {"requestId": question["id"]}.items() <= messages[1]["params"].items()
        number = client.send_call("ask_color")
        response = client.read()
        client.write(
            {"jsonrpc": "2.0", "id": response["id"], "result": {"action": "accept", "content": {"value": "red"}}}
        )
        assert client.response(number)["result"]["content"][0]["text"] == "red"


def test_the_end_of_input_ends_the_process_after_the_calls_in_flight(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start(stateless=True)
        number = client.send_call("wait", seconds=0.5)
        client.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert client.response(number)["result"]["content"][0]["text"] == "waited"
        assert client.process.wait(5) == 0
        assert find_servers(tmp_path)


def test_a_signal_lets_the_calls_in_flight_finish_and_rejects_new_ones(tmp_path: Path) -> None:
    with sharing(tmp_path, limits={"drain": "30s"}) as start:
        client = start(stateless=True)
        number = client.send_call("wait", seconds=1.5)
        assert client.call("read_pid"), "the first call has begun"
        client.process.send_signal(signal.SIGTERM)
        eventually(lambda: client.request("tools/list").get("error"))
        assert client.response(number)["result"]["content"][0]["text"] == "waited"
        assert client.process.wait(5) == 0


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with sharing(tmp_path, **LONG) as start:
        client = start(stateless=True)
        number = client.send_call("wait", seconds=300)
        assert client.call("read_pid"), "the first call has begun"
        client.process.send_signal(signal.SIGTERM)
        eventually(lambda: client.request("tools/list").get("error"))
        client.process.send_signal(signal.SIGTERM)
        assert client.response(number)["error"]["code"] == -32000
        assert client.process.wait(5) == 0


def test_the_call_of_a_client_that_was_killed_is_cancelled_and_the_others_go_on(tmp_path: Path) -> None:
    with sharing(tmp_path, **LONG, shared={"idle": "100ms"}) as start:
        first, second = start(stateless=True), start(stateless=True)
        assert first.call("read_pid") == second.call("read_pid")
        first.send_call("wait", seconds=300)
        first.process.kill()
        assert second.call("read_pid")
        assert second.leave() == 0
        eventually(lambda: not find_servers(tmp_path))


def test_invalid_settings_end_the_process_as_in_serve(tmp_path: Path) -> None:
    with sharing(tmp_path, nonsense=1) as start:
        client = start()
        client.send("initialize")
        assert client.read() is None
        assert client.process.wait(5) == 2
        assert b"nonsense" in client.process.stderr.read()


def test_each_client_of_a_server_that_does_not_start_reports_why(tmp_path: Path) -> None:
    with sharing(tmp_path, nonsense=1) as start:
        clients = [start() for _ in range(4)]
        for client in clients:
            client.send("initialize")
        for client in clients:
            assert client.process.wait(60) in {1, 2}
            error = client.process.stderr.read().decode()
            # Another client may have started the server of this one.
            log = re.search(r"The reason is in (.+\.log)", error)
            assert "nonsense" in (Path(log[1]).read_text() if log is not None else error)


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start(file=tmp_path / "missing.yaml")
        assert client.process.wait(60) == 2
        assert b"no such file" in client.process.stderr.read()


def test_settings_that_became_invalid_are_reported_and_the_client_can_retry(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start().begin()
        pid = int(client.call("read_pid"))
        file = tmp_path / "shelf.json"
        valid = file.read_text()
        file.write_text(json.dumps({**json.loads(valid), "nonsense": 1}))
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not find_servers(tmp_path))
        error = client.request("tools/list")["error"]
        assert (error["code"], "has not run" in error["message"]) == (-32000, True)
        log = error["message"].partition("The reason is in ")[2]
        assert "nonsense" in Path(log).read_text()
        file.unlink()
        assert "No such file" in client.request("tools/list")["error"]["message"]
        file.write_text(valid)
        assert client.call("read_pid")


def test_two_threads_that_write_large_messages_do_not_block_each_other(tmp_path: Path) -> None:
    """The relay reads and writes in both directions with limited buffers."""
    with sharing(tmp_path) as start:
        client = start(stateless=True)
        text = "x" * 200_000
        numbers: list[int] = []
        thread = threading.Thread(
            target=lambda: numbers.extend(client.send_call("remember", value=text) for _ in range(50))
        )
        thread.start()
        ids = [client.read()["id"] for _ in range(50)]
        thread.join()
        assert sorted(ids) == sorted(numbers)


def test_the_socket_and_its_folder_are_only_for_their_owner(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        start(stateless=True).call("read_pid")
        path = next((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_can_use_is_rejected(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        folder = tmp_path / "state/mcp-bridge/shared"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        client = start()
        assert client.process.wait(60) == 1
        assert b"other users can use the folder" in client.process.stderr.read()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_disconnected(tmp_path: Path) -> None:
    with sharing(tmp_path) as start:
        client = start(stateless=True)
        client.call("read_pid")
        path = next((tmp_path / "state/mcp-bridge/shared").glob("*.sock"))
        assert connect_as(12345, path) == b""
        assert "another user" in read_log(tmp_path)
        assert client.call("read_pid")


def connect_as(user: int, path: Path) -> bytes:
    """Connect as another user with access to the socket, and return the response of the server."""
    code = (
        "import ctypes, os, socket, sys\n"
        f"os.setresuid(0, {user}, 0)\n"
        "ctypes.CDLL(None).setfsuid(0)\n"  # paths are resolved as root
        "connected = socket.socket(socket.AF_UNIX)\n"
        "connected.connect(sys.argv[1])\n"
        "sys.stdout.buffer.write(connected.recv(100))\n"
    )
    return subprocess.run([sys.executable, "-c", code, str(path.resolve())], check=True, stdout=subprocess.PIPE).stdout
