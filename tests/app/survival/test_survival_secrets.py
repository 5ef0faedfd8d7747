"""Secrets from the settings appear neither in answers to clients nor in the log."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, TIMEOUT
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.secret_kit import (
    ENV,
    PLANTED,
    SETTINGS,
    Sse,
    assert_no_secrets,
    find_secrets,
    run_leaking_server,
)
from tests.kits.survival.survival_kit import FIRST_WAY, ON_BOTH_WAYS, SECOND_WAY, on_one_way, run_server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield a server for all tests here, and check its whole output for secrets at the end."""

    @contextlib.contextmanager
    def start(way: Way) -> Iterator[Any]:
        with run_leaking_server(way, tmp_path_factory.mktemp("leaking")) as server:
            yield server
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert_no_secrets(server)

    with contextlib.closing(SharedServers(start)) as servers:
        yield servers


@pytest.fixture
def way() -> Way:
    """Return the default way."""
    return FIRST_WAY


def has_secret(answer: Any) -> bool:
    """Whether a secret was redacted in a result."""
    return "[secret]" in json.dumps(answer)


RETURNS = (
    "text", "data", "keys", "number", "json_text", "repr_text", "url", "base64", "bytes", "blocks", "bytes_of_repr",
    "environment",
)  # fmt: skip


@on_one_way("kind", RETURNS, smoke=["text", "keys"])
def test_results_reach_the_client_without_the_secrets(server: Any, kind: str) -> None:
    answer = server.get_result(f"returns_{kind}")
    assert not answer.get("isError")
    assert has_secret(answer)
    assert_no_secrets(server)


@pytest.mark.parametrize("variant", ["raises", "chained", "grouped", "noted", "base_exception"])
def test_an_exceptions_text_stays_in_the_log_without_the_secrets(server: Any, variant: str) -> None:
    answer = server.get_result(f"does_{variant}")
    reference = re.search(r"reference (\w{12})", answer["content"][0]["text"])
    assert answer["isError"]
    assert reference is not None
    words = f"Tool 'does_{variant}' failed with an internal error (reference {reference[1]})."
    assert answer["content"] == [{"type": "text", "text": words}]
    server.wait_for_stderr(reference[1])
    server.wait_for_stderr("[secret]")
    assert_no_secrets(server)


@pytest.mark.parametrize("name", ["does_tool_error", "lies", "streams", "returns_spiteful"])
def test_errors_reach_the_client_without_the_secrets(server: Any, name: str) -> None:
    answer = server.get_result(name)
    assert answer["isError"]
    assert_no_secrets(server)


@pytest.mark.parametrize(
    ("name", "logged"),
    [
        ("does_in_thread", "uncaught in thread with [secret]"),
        ("does_in_del", "ValueError: dying: [secret]"),
        ("does_warns", "UserWarning: careful with [secret]"),
        ("does_logs", "RuntimeError: something else"),
        ("abandons", "Task exception was never retrieved"),
    ],
)
def test_errors_in_threads_finalizers_and_abandoned_tasks_are_logged_without_the_secrets(
    server: Any, name: str, logged: str
) -> None:
    assert server.get_text(name) == "done"
    server.wait_for_stderr(logged)
    assert_no_secrets(server)


def test_a_secret_at_the_seam_of_a_truncated_result_is_redacted(server: Any) -> None:
    answer = server.get_result("returns_large")
    output, note = (item["text"] for item in answer["content"] if item["type"] == "text")
    first, last = re.findall(r"mcp-bridge://results/[\w/-]+", note)
    all_pages = output
    for number in range(2, int(last.rpartition("/")[2]) + 1):
        page = server.send_request("resources/read", {"uri": f"{first.rpartition('/')[0]}/{number}"}).result(TIMEOUT)
        all_pages += page["result"]["contents"][0]["text"]
    assert all_pages.count("[secret]") == 6
    assert not find_secrets(all_pages)
    assert all_pages.startswith("x" * 990 + "[secret] and ")
    assert_no_secrets(server)


@on_one_way("name", ["progresses", "leaks"], smoke=["progresses", "leaks"])
def test_progress_and_log_messages_contain_no_secrets(server: Any, name: str) -> None:
    meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}
    before = bytes(server.output).count(b"[secret]")
    assert "result" in server.send_request("tools/call", {"name": name, "arguments": {}}, meta).result(TIMEOUT)
    assert bytes(server.output).count(b"[secret]") > before
    assert_no_secrets(server)


@pytest.mark.parametrize(
    ("way", "name"),
    [(FIRST_WAY, "asks"), (FIRST_WAY, "needs"), (Way("stdio", stateless=False), "asks"), (SECOND_WAY, "needs")],
    ids=["stdio-stateless-asks", "stdio-stateless-needs", "stdio-handshake-asks", "http-handshake-needs"],
)
def test_questions_contain_no_secrets_and_their_answers_arrive(server: Any, name: str) -> None:
    if server.way.stateless:
        result = server.get_result(name)
        assert result["resultType"] == "input_required"
        question = result["inputRequests"]
        next_call = {"name": name, "arguments": {}, "requestState": result["requestState"]}
        answers = {key: {"action": "decline"} for key in question}
        answer = server.send_request("tools/call", {**next_call, "inputResponses": answers}).result(TIMEOUT)["result"]
    else:
        question, answer = (ask_over_stdio if server.way.transport == "stdio" else ask_over_http)(server, name)
    assert has_secret(question)
    assert answer["content"][0]["text"] == "done"
    assert_no_secrets(server)


def ask_over_stdio(server: Any, name: str) -> tuple[Any, Any]:
    """Call a tool, decline its question, and return the question and the result."""
    count, waiting = len(server.received), server.send_call(name)
    questions: list[Any] = []
    while not questions:
        server.send_request("ping").result(TIMEOUT)
        questions = [message for message in server.received[count:] if message.get("method") == "elicitation/create"]
    server.send({"jsonrpc": "2.0", "id": questions[0]["id"], "result": {"action": "decline"}})
    return questions[0]["params"], waiting.result(TIMEOUT)["result"]


def ask_over_http(server: Any, name: str) -> tuple[Any, Any]:
    """Call a tool, decline its question, and return the question and the result from the stream of the call."""
    request = {"jsonrpc": "2.0", "id": f"asks-{name}", "method": "tools/call", "params": {"name": name}}
    question = None
    with server.http.stream("POST", "/mcp", json=request, headers=server.headers) as stream:
        for line in stream.iter_lines():
            server.output += line.encode()
            message = json.loads(line[6:]) if line.startswith("data: {") else {}
            if message.get("method") == "elicitation/create":
                question = message["params"]
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}}
                assert server.post(json.dumps(answer).encode()).status_code == 202
            elif "result" in message:
                return question, message["result"]
    raise AssertionError("the call was not answered")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("resources/read", {"uri": "leaky://one"}),
        ("resources/read", {"uri": "leaky-x://one"}),
        ("prompts/get", {"name": "leaky", "arguments": {"x": "one"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "leaky"}, "argument": {"name": "x", "value": ""}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "leaky-x://{x}"}, "argument": {"name": "x", "value": ""}},
        ),
    ],
)
def test_lists_resources_prompts_and_completions_contain_no_secrets(server: Any, method: str, params: Any) -> None:
    answer = server.send_request(method, params).result(TIMEOUT)
    assert has_secret(answer)
    assert_no_secrets(server)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "leaky://raise"}),
        ("resources/read", {"uri": "leaky-x://raise"}),
        ("prompts/get", {"name": "leaky", "arguments": {"x": "raise"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "leaky"}, "argument": {"name": "x", "value": "raise"}},
        ),
    ],
)
def test_errors_of_entries_are_references_to_the_log(server: Any, method: str, params: Any) -> None:
    error = server.send_request(method, params).result(TIMEOUT)["error"]
    reference = re.search(r"reference (\w{12})", error["message"])
    assert reference is not None
    assert "wrong" not in error["message"]
    server.wait_for_stderr(reference[1])
    assert_no_secrets(server)


def test_a_value_without_a_text_is_described_by_its_type(server: Any) -> None:
    text = server.get_text("returns_spiteful")
    assert text.endswith("the value cannot be read: ValueError in a value of type Spiteful")
    completing = {"ref": {"type": "ref/prompt", "name": "leaky"}, "argument": {"name": "x", "value": "odd"}}
    error = server.send_request("completion/complete", completing).result(TIMEOUT)["error"]
    assert error["message"].endswith("the value cannot be read: ValueError in a value of type list")
    assert_no_secrets(server)


@ON_BOTH_WAYS
def test_the_server_info_contains_no_secrets(server: Any) -> None:
    method = "server/discover" if server.way.stateless else "initialize"
    answer = server.send_request(method).result(TIMEOUT) if server.way.stateless else None
    text = json.dumps(answer) if answer else bytes(server.output).decode()
    assert "The key is [secret]." in text
    assert "Leaky [secret]" in text
    assert_no_secrets(server)


def test_the_list_of_tools_has_no_secrets_and_every_tool_can_be_called_by_its_name(server: Any) -> None:
    page = server.send_request("tools/list").result(TIMEOUT)["result"]
    assert {"echo", "with_schema", "returns_text"} <= {tool["name"] for tool in page["tools"]}
    assert has_secret(page)
    assert server.get_text("echo", text="the state of messages and resources") == "the state of messages and resources"
    assert_no_secrets(server)


def test_messages_over_legacy_sse_contain_no_secrets(tmp_path: Path) -> None:
    with run_leaking_server(Way("http", stateless=False), tmp_path) as server:
        events = Sse(server)
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
        events.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        assert "The key is [secret]." in events.until('"id":1')
        events.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for number, name in enumerate(("returns_text", "returns_keys", "does_raises", "progresses", "leaks"), start=2):
            params = {"name": name, "arguments": {}, "_meta": {"progressToken": "t"}}
            events.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
            events.until(f'"id":{number}')
        events.close()
        assert events.text.count("[secret]") > 5
        server.output += events.text.encode()
        assert_no_secrets(server)


def test_words_of_the_protocol_and_common_words_are_not_redacted(way: Way, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    env = {"A": "resources", "B": "user", "C": "8080", "D": "inputSchema", "E": "description", "F": "A Title of Mine"}
    source = {"type": "planted:Planted", "pin": "x", "headers": {name: f"${{{name}}}" for name in "ABCDE"}}
    settings = {"title": "${F}", "sources": [source]}
    with run_server(way, tmp_path, settings=settings, env=env) as server:
        tools = server.send_request("tools/list").result(TIMEOUT)["result"]["tools"]
        assert {"inputSchema", "description"} <= set(tools[0])
        sentence = "A Title of Mine has resources at 8080 for every user, with an inputSchema and a description"
        assert server.get_text("echo", text=sentence) == sentence


def test_exposed_errors_contain_no_secrets(way: Way, tmp_path: Path) -> None:
    with run_leaking_server(way, tmp_path, expose_errors=True) as server:
        assert "ValueError: wrong: [secret] and" in server.get_text("does_raises")
        assert_no_secrets(server)


ISOLATED = (
    "returns_text", "returns_keys", "does_grouped", "does_tool_error", "does_logs", "does_in_thread", "does_in_del",
)  # fmt: skip


def test_results_of_isolated_tools_contain_no_secrets(way: Way, tmp_path: Path) -> None:
    apart = {"type": "python", "path": "own_tools.py", "isolation": {"env": list(ENV)}}
    with run_leaking_server(way, tmp_path, sources=[apart, SETTINGS["sources"][1]]) as server:
        for name in ISOLATED:
            server.get_result(name)
        text = server.get_text("does_raises")
        assert re.fullmatch(r"Tool 'does_raises' failed with an internal error \(reference \w{12}\)\.", text)
        for logged in ("ExceptionGroup: group [secret]", "uncaught in thread with [secret]", "dying: [secret]"):
            server.wait_for_stderr(logged)
        assert_no_secrets(server)
