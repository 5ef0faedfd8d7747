"""A malformed message gets the error of the specification, and the next message is served."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.http_client import encode_header
from tests.client.server_process import Way, parse_response
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, TIMEOUT
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.malformed import GROUPS, list_rows
from tests.kits.survival.malformed_rows import FAILED, NO_REQUEST, NOT_JSON, RESULT, SILENCE, Era, Row
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY, SURVIVAL_TOOLS, run_server

STATELESS_HTTP, HANDSHAKE_STDIO = Way("http", stateless=True), Way("stdio", stateless=False)
TABLE = [
    *((way, group) for group in GROUPS for way in (FIRST_WAY, SECOND_WAY)),
    *((STATELESS_HTTP, group) for group in ("methods", "responses", "notifications", "meta", "calls", "eras")),
    *((HANDSHAKE_STDIO, group) for group in ("envelopes", "eras")),
]
"""Every group over both transports and in both eras; where the two go together, those that they read differently."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield servers for the whole table, with a call in flight."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Any]:
        with run_server(way, tmp_path_factory.mktemp("malformed")) as server, server.keep_call_in_flight():
            yield server

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


def classify_response(answer: dict[str, Any]) -> int | str:
    """Return the error code of a response, FAILED or RESULT."""
    if "error" in answer:
        return int(answer["error"]["code"])
    return FAILED if answer["result"].get("isError") else RESULT


def send_over_stdio(server: Any, row: Row) -> list[tuple[int | str, Any]]:
    """Send a line, and return the responses to it. A valid call shows that there are no more."""
    before = len(server.received)
    server.write(row.data + b"\n")
    if row.number is not None and row.expected != SILENCE:
        with contextlib.suppress(TimeoutError):
            server.expect_response(row.number).result(TIMEOUT)
    good = server.send_call("whoami")
    assert good.result(TIMEOUT)["result"]["content"], row.name
    answers = [message for message in server.received[before:] if message is not good.result()]
    assert server.invalid_lines == []
    return [(classify_response(answer), answer.get("id")) for answer in answers]


def send_over_http(server: Any, row: Row) -> list[tuple[int | str, Any]]:
    """Post a body, and return the responses to it."""
    answer = server.post(row.data, make_headers(server, row.data))
    assert answer.status_code < 500, answer.text[:500]
    assert "content" in server.get_result("whoami"), row.name
    if answer.status_code == 202:
        assert answer.content == b""
        return []
    message = parse_response(answer)
    return [(classify_response(message), message.get("id"))]


def make_headers(server: Any, data: bytes) -> dict[str, str]:
    """Return the headers with the method and the name of a body, if they are readable."""
    headers = dict(server.headers)
    try:
        message = json.loads(data)
        method = message["method"]
        json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError, LookupError, TypeError):
        return headers
    params = message.get("params")
    fields = params if isinstance(params, dict) else {}
    key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(str(method), "")
    for header, value in (("Mcp-Method", method), ("Mcp-Name", fields.get(key))):
        if isinstance(value, str) and len(value) < 1000:
            headers[header] = encode_header(value)
    return headers


@pytest.mark.parametrize(("way", "group"), TABLE, ids=[f"{way}-{group}" for way, group in TABLE])
def test_a_malformed_message_gets_the_correct_error_and_the_next_is_served(server: Any, group: str) -> None:
    position, wrong = len(server.stderr), []
    send = send_over_http if server.way.transport == "http" else send_over_stdio
    for row in list_rows(server.way, group):
        outcome = send(server, row)
        if outcome != ([] if row.expected == SILENCE else [(row.expected, row.number)]):
            wrong.append((row.name, row.expected, row.number, outcome))
        assert server.is_running, row.name
    assert not wrong, "\n".join(map(str, wrong))[:5000]
    assert "Traceback" not in server.stderr[position:]


@pytest.mark.parametrize("way", [FIRST_WAY, SECOND_WAY, STATELESS_HTTP], ids=str)
def test_an_id_that_is_in_use_is_rejected_and_the_first_call_finishes(way: Way, tmp_path: Path) -> None:
    era = Era(way.stateless)
    first, second = (
        json.dumps(era.request("mine", "tools/call", name=name, arguments=arguments)).encode()
        for name, arguments in (("neighbour", {"token": "reused"}), ("whoami", {}))
    )
    # Without sessions, each body is a conversation of its own, and other clients use the same ids.
    free = str(way) == "http-stateless"
    with run_server(way, tmp_path) as server, ThreadPoolExecutor(1) as aside:
        if way.transport == "stdio":
            server.write(first + b"\n")
            server.wait_for_stderr("begun reused")
            before = len(server.received)
            server.write(second + b"\n")
            assert server.get_result("release", token="reused")["content"]
            response = server.received[before]
        else:
            waiting = aside.submit(server.post, first, make_headers(server, first))
            server.wait_for_stderr("begun reused")
            response = parse_response(server.post(second, make_headers(server, second)))
            assert server.get_result("release", token="reused")["content"]
            assert parse_response(waiting.result(TIMEOUT))["result"]["content"][0]["text"] == "neighbour reused"
            # The id is free again.
            assert classify_response(parse_response(server.post(second, make_headers(server, second)))) == RESULT
        assert (classify_response(response), response["id"]) == (RESULT if free else NO_REQUEST, "mine")


@ON_BOTH_WAYS
def test_fifty_megabytes_are_rejected_in_constant_memory(way: Way, tmp_path: Path) -> None:
    with run_server(way, tmp_path) as server, server.keep_call_in_flight():
        assert server.get_result("whoami")["content"]
        before = server.rss
        huge = Row("50 MB", b'{"jsonrpc": "2.0", "id": "' + b"x" * 50_000_000 + b'", "method": "ping"}', NO_REQUEST)
        if way.transport == "stdio":
            assert send_over_stdio(server, huge) == [(NO_REQUEST, None)]
        else:
            assert is_rejected_or_closed(server, huge.data)
        assert server.get_result("whoami")["content"]
        assert server.rss - before < 30_000_000


def is_rejected_or_closed(server: Any, body: bytes) -> bool:
    """Whether the server rejects a body for its size. It may close the connection before it has read all of it."""
    try:
        return bool(server.post(body).status_code == 413)
    except (httpx2.WriteError, httpx2.ReadError, httpx2.RemoteProtocolError):
        return True


@pytest.mark.parametrize("filling", [b"x", b" "], ids=["text", "blanks"])
def test_an_endless_line_is_read_in_constant_memory(tmp_path: Path, filling: bytes) -> None:
    with run_server(FIRST_WAY, tmp_path) as server:
        assert server.get_result("whoami")["content"]
        before, most = server.rss, 0
        for _ in range(100):
            server.write(filling * 1_000_000)
            most = max(most, server.rss)
        assert most - before < 30_000_000
        count = len(server.received)
        assert send_over_stdio(server, Row("its end", b"", NO_REQUEST)) == [(NO_REQUEST, None)]
        assert len(server.received) == count + 2


def test_lines_may_be_blank_end_in_the_windows_way_or_lack_their_end(tmp_path: Path) -> None:
    era = Era(FIRST_WAY.stateless)
    with run_server(FIRST_WAY, tmp_path) as server:
        before = len(server.received)
        server.write(b"\n\r\n \t \n" * 10_000 + era.text("windows").encode() + b"\r\n\r\n")
        assert classify_response(server.expect_response("windows").result(TIMEOUT)) == RESULT
        server.write(era.text("split")[:20].encode())
        server.write(
            era.text("split")[20:].encode() + b"\n" + era.text("one").encode() + b"\n" + era.text("two").encode()
        )
        server.close_input()
        assert {
            classify_response(server.expect_response(name).result(TIMEOUT)) for name in ("split", "one", "two")
        } == {RESULT}
        assert server.wait() == 0
        assert len(server.received) == before + 4


@pytest.mark.parametrize("data", [b"x" * 5_000_000, b'{"jsonrpc": "2.0", "id": 1'], ids=["long", "cut"])
def test_a_broken_last_line_without_a_line_end_gets_an_error(tmp_path: Path, data: bytes) -> None:
    with run_server(FIRST_WAY, tmp_path) as server:
        server.write(data)
        server.close_input()
        answer = server.expect_response(None).result(TIMEOUT)
        assert classify_response(answer) == (NO_REQUEST if len(data) > 4_194_304 else NOT_JSON)
        assert server.wait() == 0


@pytest.mark.parametrize("method", ["tools/call", "logging/setLevel"])
def test_a_request_before_initialize_gets_an_error(tmp_path: Path, method: str) -> None:
    with run_without_handshake(tmp_path) as process:
        params = {"tools/call": {"name": "echo", "arguments": {}}, "logging/setLevel": {"level": "info"}}[method]
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
        for number, name, fields in [("first", method, params), ("ping", "ping", {}), ("hello", "initialize", hello)]:
            message = {"jsonrpc": "2.0", "id": number, "method": name, "params": fields}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.close()
        answers = {answer["id"]: classify_response(answer) for answer in map(json.loads, process.stdout)}
        assert answers == {"first": NO_REQUEST, "ping": RESULT, "hello": RESULT}


@contextlib.contextmanager
def run_without_handshake(folder: Path) -> Iterator[Any]:
    """Run a server over stdio without a handshake."""
    shutil.copy(SURVIVAL_TOOLS, folder / "survival_tools.py")
    command = [sys.executable, "-m", "mcp_bridge", "serve", "survival_tools.py"]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()
