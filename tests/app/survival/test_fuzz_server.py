"""The server survives any messages of a client, and answers each request exactly once.

FUZZ=50 sends fifty times as many. One server process of each kind serves all tests of this file.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import orjson
import pytest
from hypothesis import example, given
from pydantic import TypeAdapter

from mcp_bridge._protocol.peer.json_lines import BYTE_ORDER_MARK, MAX_REPAIRED
from tests.client.raw_client import Json
from tests.client.server_process import HttpServerProcess, ServerProcess, StdioServerProcess, Way, parse_response
from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.fuzzing import build_text, read_corpus, use_examples
from tests.kits.paths import KITS
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.fuzz_messages import ID, encode_message, generate_sequences, list_valid_messages
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY, WAYS, run_server

MIB = 1024 * 1024
STEADY = 24 * MIB
"""What memory may grow by between two halves of as many messages: pools and caches fill, nothing else may."""
OURS = re.compile(r"f\d+\.\d+")
"""Ids that are given here."""
STATUSES = {200, 202, 400, 404, 413}
RESULTS: dict[str, Any] = {
    "tools/list": types.ListToolsResult,
    "tools/call": types.CallToolResult | types.InputRequiredResult,
    "resources/list": types.ListResourcesResult,
    "resources/templates/list": types.ListResourceTemplatesResult,
    "resources/read": types.ReadResourceResult,
    "prompts/list": types.ListPromptsResult,
    "prompts/get": types.GetPromptResult,
    "completion/complete": types.CompleteResult,
    "server/discover": types.DiscoverResult,
}


class Fuzzed:
    """A server with fuzzed input. Its output is checked here, and its responses are counted by id."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.sent = 0
        self.calm = 0

    @property
    def is_running(self) -> bool:
        """Whether the server still runs."""
        return self.server.is_running

    def send(self, bodies: list[bytes]) -> None:
        """Send messages with new ids, and check the state of the server afterwards."""
        self.sent += 1
        lines = [body.replace(ID.encode(), f"f{self.sent}.{n}".encode()) for n, body in enumerate(bodies)]
        if isinstance(self.server, StdioServerProcess):
            self._write(self.server, lines)
        elif isinstance(self.server, HttpServerProcess):
            for line in lines:
                self._post(self.server, line)
        self.good()
        if self.sent == WARM:
            self.calm = self.server.rss

    def send_one(self, body: bytes) -> int | str:
        """Return the outcome of one message: the code of an error, `result`, `failed`, or `silence`."""
        line = body.replace(ID.encode(), f"sent{self.sent}".encode())
        if isinstance(self.server, HttpServerProcess):
            got = self.server.post(line, _make_headers(self.server, line))
            answers = [parse_response(got)] if got.content else []
        else:
            assert isinstance(self.server, StdioServerProcess)
            received_before = len(self.server.received)
            self.server.write(line + b"\n")
            data = _read(line) or _read_repaired(line)
            if isinstance(data, dict) and data.get("id") == f"sent{self.sent}" and "method" in data:
                self.server.expect_response(data["id"]).result(TIMEOUT)
            self.good()
            answers = [
                item
                for item in self.server.received[received_before:]
                if item.get("id") in (f"sent{self.sent}", 1, None)
            ]
        if not answers:
            return "silence"
        [answer] = answers
        if "error" in answer:
            return int(answer["error"]["code"])
        return "failed" if answer["result"].get("isError") else "result"

    def good(self) -> None:
        """A good call is answered rightly, and the process is as it was."""
        token = f"token {self.sent}"
        answer = self.server.send_call("echo", text=token).result(TIMEOUT)
        assert "result" in answer, answer
        assert answer["result"]["content"][0]["text"] == token
        assert self.server.is_running
        assert "Traceback" not in self.server.stderr, self.server.stderr[-4000:]

    def _write(self, server: StdioServerProcess, lines: list[bytes]) -> None:
        numbers = [_get_request_id(line) for line in lines]
        received_before = len(server.received)
        server.write(b"".join(line + b"\n" for line in lines))
        for line, number in zip(lines, numbers, strict=True):
            if number is not None:
                _check_response(line, server.expect_response(number).result(TIMEOUT))
        self.good()
        responses = [message for message in server.received[received_before:] if "method" not in message]
        unnumbered = [message for message in responses if message["id"] is None or message["id"] not in numbers]
        # One of the others is the response to the good call.
        assert len(unnumbered) > sum(map(_needs_response, lines))
        assert server.invalid_lines == []

    def _post(self, server: HttpServerProcess, line: bytes) -> None:
        answer = server.post(line, _make_headers(server, line))
        assert answer.status_code in STATUSES, (answer.status_code, answer.text)
        number = _get_request_id(line)
        if answer.content:
            message = parse_response(answer)
            assert message["jsonrpc"] == "2.0"
            assert number is None or message["id"] == number
        if number is not None:
            _check_response(line, parse_response(answer))


def _read(line: bytes) -> Any:
    """Return a line as strict JSON without lone surrogates and duplicate names, or None."""
    try:
        orjson.loads(line)
        return json.loads(line, object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError):
        return None


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> Json:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _read_repaired(line: bytes) -> Any:
    """Return a line as JSON after the server's repairs, or as read for the id of an error, or None."""
    if len(line) > MAX_REPAIRED:
        return None
    try:
        text = line.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
        return json.loads(text, strict=False, object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError):
        return None


def _needs_response(line: bytes) -> bool:
    """Return whether a line without a JSON object gets a response, apart from one under the id of `_get_request_id`."""
    try:
        return bool(line.strip()) and not isinstance(orjson.loads(line), dict)
    except ValueError:
        data = _read_repaired(line)
    # Notifications and responses are repaired and have no response.
    is_request = isinstance(data, dict) and "id" in data and "result" not in data and "error" not in data
    return not isinstance(data, dict) or (is_request and _get_request_id(line) is None)


def _get_request_id(line: bytes) -> str | None:
    """Return the id of a response that must come: of a readable request with an id of these tests."""
    data = _read(line) or _read_repaired(line)
    if not isinstance(data, dict) or not isinstance(data.get("method"), str) or "result" in data or "error" in data:
        return None
    number = data.get("id")
    return number if isinstance(number, str) and OURS.fullmatch(number) else None


def _make_headers(server: HttpServerProcess, line: bytes) -> dict[str, str]:
    """Return the headers for a message, from its readable parts."""
    data = _read(line)
    data = data if isinstance(data, dict) else {}
    headers = dict(server.headers)
    if server.way.stateless:
        params = data.get("params") if isinstance(data.get("params"), dict) else {}
        name = params.get("name") or params.get("uri")
        for header, value in (("Mcp-Method", data.get("method")), ("Mcp-Name", name)):
            if isinstance(value, str) and value:
                headers[header] = _encode_header(value)
    return headers


def _encode_header(value: str) -> str:
    """Return a value as a header has it (MCP 2026-07-28, transports, "Value Encoding")."""
    if value.isascii() and value.isprintable() and len(value) < 4000 and value == value.strip():
        return value
    raw = value.encode("utf-8", "surrogatepass")[:3000]
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def _check_response(line: bytes, answer: Json) -> None:
    """Check that a response is JSON-RPC, and that its result matches the method."""
    types.jsonrpc_message_adapter.validate_python(answer)
    assert ("result" in answer) != ("error" in answer)
    method = (_read(line) or _read_repaired(line))["method"]
    if "result" in answer and method in RESULTS:
        TypeAdapter(RESULTS[method]).validate_python(answer["result"])


WARM = 40
"""After so many examples memory is taken to be what it will be."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield one server for all messages of a way."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Fuzzed]:
        with run_server(way, tmp_path_factory.mktemp("fuzz"), KITS / "survival" / "fuzz_tools.py") as server:
            yield Fuzzed(server)

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


@pytest.fixture
def fuzzed(way: Way, shared: SharedServers) -> Any:
    """Return the fuzzed server."""
    return shared.server(way)


@ON_BOTH_WAYS
def test_every_valid_message_gets_a_response(fuzzed: Fuzzed) -> None:
    for message in list_valid_messages(stateless=fuzzed.server.way.stateless):
        fuzzed.send([encode_message(message)])


def read_finding(finding: Json, way: Way) -> bytes:
    """Return the bytes of a finding. META is replaced by the metadata of the era."""
    if "hex" in finding:
        return bytes.fromhex(finding["hex"])
    text = build_text(finding["text"])
    return text.replace("META", json.dumps(ENVELOPE if way.stateless else {})).encode()


FINDINGS = read_corpus("message")


@pytest.mark.parametrize(
    ("way", "finding"),
    [
        *(pytest.param(FIRST_WAY, *finding.values, id=f"{FIRST_WAY}-{finding.id}") for finding in FINDINGS),
        *(pytest.param(SECOND_WAY, *finding.values, id=f"{SECOND_WAY}-{finding.id}") for finding in FINDINGS[:3]),
    ],
)
def test_a_message_that_once_failed_gets_the_correct_error(fuzzed: Fuzzed, finding: Json) -> None:
    body = read_finding(finding, fuzzed.server.way)
    fuzzed.send([body])
    assert fuzzed.send_one(body) == finding["expect"], finding["name"]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_generated_messages_do_not_stop_the_server_or_its_responses_or_fill_its_memory(fuzzed: Fuzzed) -> None:
    @use_examples(50)
    @given(bodies=generate_sequences(stateless=fuzzed.server.way.stateless))
    def check(bodies: list[bytes]) -> None:
        fuzzed.send(bodies)

    for finding in FINDINGS:
        check = example(bodies=[read_finding(finding.values[0], fuzzed.server.way)])(check)
    check()
    assert fuzzed.server.rss - fuzzed.calm < STEADY
    if isinstance(fuzzed.server, StdioServerProcess):
        ids = Counter(str(message["id"]) for message in fuzzed.server.received if "method" not in message)
        assert [number for number, times in ids.items() if times > 1 and OURS.fullmatch(number)] == []
