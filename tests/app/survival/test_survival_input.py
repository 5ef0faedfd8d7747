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

from tests.kits.constants import CLIENT_INFO, HANDSHAKE, TIMEOUT
from tests.kits.survival.fault_kit import Shared
from tests.kits.survival.malformed import GROUPS, rows
from tests.kits.survival.malformed_rows import FAILED, NO_REQUEST, NOT_JSON, RESULT, SILENCE, Era, Row
from tests.kits.survival.survival_kit import BOTH, ONE, OTHER, OURS, Way, header_of, live, message_of

STATELESS_HTTP, HANDSHAKE_STDIO = Way("http", stateless=True), Way("stdio", stateless=False)
TABLE = [
    *((way, group) for group in GROUPS for way in (ONE, OTHER)),
    *((STATELESS_HTTP, group) for group in ("methods", "responses", "notifications", "meta", "calls", "eras")),
    *((HANDSHAKE_STDIO, group) for group in ("envelopes", "eras")),
]
"""Every group over both transports and in both eras; where the two go together, those that they read differently."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Servers that live through the whole table, with a call in flight beside it."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Any]:
        with live(way, tmp_path_factory.mktemp("malformed")) as made, made.neighbour():
            yield made

    with contextlib.closing(Shared(start)) as servers:
        yield servers


def judged(answer: dict[str, Any]) -> int | str:
    """What an answer is, in the words of the table."""
    if "error" in answer:
        return int(answer["error"]["code"])
    return FAILED if answer["result"].get("isError") else RESULT


def over_stdio(server: Any, row: Row) -> list[tuple[int | str, Any]]:
    """What a line is answered with; a good call shows that there is nothing more."""
    before = len(server.heard)
    server.write(row.data + b"\n")
    if row.number is not None and row.wanted != SILENCE:
        with contextlib.suppress(TimeoutError):
            server.expect(row.number).result(TIMEOUT)
    good = server.call("whoami")
    assert good.result(TIMEOUT)["result"]["content"], row.name
    answers = [message for message in server.heard[before:] if message is not good.result()]
    assert server.garbage == []
    return [(judged(answer), answer.get("id")) for answer in answers]


def over_http(server: Any, row: Row) -> list[tuple[int | str, Any]]:
    """What a body is answered with."""
    answer = server.post(row.data, routing(server, row.data))
    assert answer.status_code < 500, answer.text[:500]
    assert "content" in server.result("whoami"), row.name
    if answer.status_code == 202:
        assert answer.content == b""
        return []
    message = message_of(answer)
    return [(judged(message), message.get("id"))]


def routing(server: Any, data: bytes) -> dict[str, str]:
    """The headers that repeat a body's method and name, as far as they can be read in it."""
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
            headers[header] = header_of(value)
    return headers


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "group"), TABLE, ids=[f"{way}-{group}" for way, group in TABLE])
def test_a_malformed_message_gets_the_correct_error_and_the_next_is_served(server: Any, group: str) -> None:
    said, wrong = len(server.err), []
    send = over_http if server.way.transport == "http" else over_stdio
    for row in rows(server.way, group):
        found = send(server, row)
        if found != ([] if row.wanted == SILENCE else [(row.wanted, row.number)]):
            wrong.append((row.name, row.wanted, row.number, found))
        assert server.alive, row.name
    assert not wrong, "\n".join(map(str, wrong))[:5000]
    assert "Traceback" not in server.err[said:]


@pytest.mark.parametrize("way", [ONE, OTHER, STATELESS_HTTP], ids=str)
def test_an_id_that_is_in_use_is_rejected_and_the_first_call_finishes(way: Way, tmp_path: Path) -> None:
    era = Era(way.stateless)
    first, second = (
        json.dumps(era.ask("mine", "tools/call", name=name, arguments=arguments)).encode()
        for name, arguments in (("neighbour", {"token": "reused"}), ("whoami", {}))
    )
    # Without sessions, each body is a conversation of its own, and other clients use the same ids.
    free = str(way) == "http-stateless"
    with live(way, tmp_path) as server, ThreadPoolExecutor(1) as aside:
        if way.transport == "stdio":
            server.write(first + b"\n")
            server.says("begun reused")
            before = len(server.heard)
            server.write(second + b"\n")
            assert server.result("release", token="reused")["content"]
            found = server.heard[before]
        else:
            waiting = aside.submit(server.post, first, routing(server, first))
            server.says("begun reused")
            found = message_of(server.post(second, routing(server, second)))
            assert server.result("release", token="reused")["content"]
            assert message_of(waiting.result(TIMEOUT))["result"]["content"][0]["text"] == "neighbour reused"
            # The id is free again.
            assert judged(message_of(server.post(second, routing(server, second)))) == RESULT
        assert (judged(found), found["id"]) == (RESULT if free else NO_REQUEST, "mine")


@BOTH
def test_fifty_megabytes_are_rejected_in_constant_memory(way: Way, tmp_path: Path) -> None:
    with live(way, tmp_path) as server, server.neighbour():
        assert server.result("whoami")["content"]
        before = server.rss
        huge = Row("50 MB", b'{"jsonrpc": "2.0", "id": "' + b"x" * 50_000_000 + b'", "method": "ping"}', NO_REQUEST)
        if way.transport == "stdio":
            assert over_stdio(server, huge) == [(NO_REQUEST, None)]
        else:
            assert refused_or_closed(server, huge.data)
        assert server.result("whoami")["content"]
        assert server.rss - before < 30_000_000


def refused_or_closed(server: Any, body: bytes) -> bool:
    """Whether a body is refused for its size; a server may close the connection while the rest is on its way."""
    try:
        return bool(server.post(body).status_code == 413)
    except (httpx2.WriteError, httpx2.ReadError, httpx2.RemoteProtocolError):
        return True


@pytest.mark.parametrize("filling", [b"x", b" "], ids=["text", "blanks"])
def test_an_endless_line_is_read_in_constant_memory(tmp_path: Path, filling: bytes) -> None:
    with live(ONE, tmp_path) as server:
        assert server.result("whoami")["content"]
        before, most = server.rss, 0
        for _ in range(100):
            server.write(filling * 1_000_000)
            most = max(most, server.rss)
        assert most - before < 30_000_000
        heard = len(server.heard)
        assert over_stdio(server, Row("its end", b"", NO_REQUEST)) == [(NO_REQUEST, None)]
        assert len(server.heard) == heard + 2


def test_lines_may_be_blank_end_in_the_windows_way_or_lack_their_end(tmp_path: Path) -> None:
    era = Era(ONE.stateless)
    with live(ONE, tmp_path) as server:
        before = len(server.heard)
        server.write(b"\n\r\n \t \n" * 10_000 + era.text("windows").encode() + b"\r\n\r\n")
        assert judged(server.expect("windows").result(TIMEOUT)) == RESULT
        server.write(era.text("split")[:20].encode())
        server.write(
            era.text("split")[20:].encode() + b"\n" + era.text("one").encode() + b"\n" + era.text("two").encode()
        )
        server.hang_up()
        assert {judged(server.expect(name).result(TIMEOUT)) for name in ("split", "one", "two")} == {RESULT}
        assert server.ends() == 0
        assert len(server.heard) == before + 4


@pytest.mark.parametrize("data", [b"x" * 5_000_000, b'{"jsonrpc": "2.0", "id": 1'], ids=["long", "cut"])
def test_a_broken_last_line_without_a_line_end_gets_an_error(tmp_path: Path, data: bytes) -> None:
    with live(ONE, tmp_path) as server:
        server.write(data)
        server.hang_up()
        answer = server.expect(None).result(TIMEOUT)
        assert judged(answer) == (NO_REQUEST if len(data) > 4_194_304 else NOT_JSON)
        assert server.ends() == 0


@pytest.mark.parametrize("method", ["tools/call", "logging/setLevel"])
def test_a_request_before_initialize_gets_an_error(tmp_path: Path, method: str) -> None:
    with raw(tmp_path) as process:
        params = {"tools/call": {"name": "echo", "arguments": {}}, "logging/setLevel": {"level": "info"}}[method]
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
        for number, asked, given in [("first", method, params), ("ping", "ping", {}), ("hello", "initialize", hello)]:
            message = {"jsonrpc": "2.0", "id": number, "method": asked, "params": given}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.close()
        answers = {answer["id"]: judged(answer) for answer in map(json.loads, process.stdout)}
        assert answers == {"first": NO_REQUEST, "ping": RESULT, "hello": RESULT}


@contextlib.contextmanager
def raw(folder: Path) -> Iterator[Any]:
    """A server over stdio whose client has not said hello."""
    shutil.copy(OURS, folder / "survival_tools.py")
    command = [sys.executable, "-m", "mcp_bridge", "serve", "survival_tools.py"]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()
