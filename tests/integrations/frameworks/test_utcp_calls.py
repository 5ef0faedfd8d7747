"""UTCP manuals with tools called by UTCP's packages: over HTTP, and commands that need a shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_bridge._integrations.frameworks.discovery import convert_toolbox
from mcp_bridge._integrations.frameworks.utcp.manual import read_manual
from mcp_bridge.testing import connect
from tests.kits.frameworks.environments import require_framework
from tests.kits.frameworks.framework_clients import build_bridge, connect_to_objects, run_tool

require_framework("utcp")

from utcp.data.utcp_manual import UtcpManual, UtcpManualSerializer


class Echo(BaseHTTPRequestHandler):
    """A server that returns the request, except for a few paths."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/forbidden":
            self._answer(403, {"error": "this city is closed"})
        elif parts.path == "/text":
            self._answer(200, "just text", "text/plain")
        else:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size).decode()
            key = self.headers.get("X-Key")
            received = {"path": parts.path, "query": parse_qs(parts.query), "body": body, "key": key}
            self._answer(200, {"method": self.command, **received})

    do_POST = do_GET

    def log_message(self, *_: Any) -> None: ...

    def _answer(self, status: int, answer: Any, media_type: str = "application/json") -> None:
        data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def build_http_tool(url: str, name: str = "ask", inputs: Any = None, **more: Any) -> dict[str, Any]:
    """Return a tool with an address."""
    template = {"call_template_type": "http", "url": url, "http_method": "GET", **more}
    return {"name": name, "inputs": inputs or {"type": "object"}, "tool_call_template": template}


def build_manual(*tools: Any) -> dict[str, Any]:
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools)}


async def test_arguments_are_sent_in_path_query_headers_and_body(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "1234")
    tool = build_http_tool(
        f"{site}/users/{{user}}",
        http_method="POST",
        headers={"X-Key": "${A_KEY}"},
        body_field="given",
    )
    async with connect_to_objects(build_manual(tool)) as client:
        result = await client.call_tool("ask", {"user": "a/b", "deep": True, "page": 2, "given": {"n": 1}})
    received = json.loads(result.content[0].text)
    assert received["path"] == "/users/a%2Fb"
    assert received["query"] == {"deep": ["true"], "page": ["2"]}
    assert json.loads(received["body"]) == {"n": 1}
    assert (received["method"], received["key"]) == ("POST", "1234")


async def test_a_text_is_text_and_outputs_are_structured(site: str) -> None:
    texts = {"type": "object", "properties": {"path": {"type": "string"}}}
    second_tool = build_http_tool(f"{site}/here", "other") | {"outputs": texts}
    async with connect_to_objects(build_manual(build_http_tool(f"{site}/text"), second_tool)) as client:
        assert await run_tool(client, "ask") == ("just text", False)
        assert (await client.call_tool("other", {})).structured_content["path"] == "/here"


async def test_an_error_response_is_a_failure_with_its_reason(site: str) -> None:
    async with connect_to_objects(build_manual(build_http_tool(f"{site}/forbidden"))) as client:
        text, is_error = await run_tool(client, "ask")
    assert is_error
    assert text == "HTTP 403: Forbidden: this city is closed"


async def test_a_missing_part_of_the_url_is_named(site: str) -> None:
    async with connect_to_objects(build_manual(build_http_tool(f"{site}/users/{{user}}"))) as client:
        text, is_error = await run_tool(client, "ask")
    assert is_error
    assert "user: required, because it is a part of the URL" in text


async def test_an_unreachable_server_is_unavailable_and_the_error_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sesame")
    auth = {"auth_type": "api_key", "api_key": "${A_KEY}", "var_name": "key", "location": "query"}
    async with connect_to_objects(build_manual(build_http_tool("http://127.0.0.1:9/", auth=auth))) as client:
        text, is_error = await run_tool(client, "ask")
    assert is_error
    assert "'127.0.0.1' does not respond" in text
    assert "sesame" not in text


async def test_the_problem_of_an_invalid_template_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sesame")
    wrong = build_http_tool("https://example.org/${A_KEY}", http_method="${A_KEY}")
    bridge = build_bridge(build_manual(wrong))
    async with connect(bridge):
        (problem,) = bridge.problems["objects"]
    assert "the UTCP tool 'ask': its call template is not valid: http_method" in problem
    assert "sesame" not in problem


async def test_a_manual_of_the_package_utcp_is_accepted(site: str) -> None:
    value = UtcpManualSerializer().validate_dict(build_manual(build_http_tool(f"{site}/text")))
    assert isinstance(value, UtcpManual)
    assert convert_toolbox(value) is not None
    async with connect_to_objects(value) as client:
        assert await run_tool(client, "ask") == ("just text", False)


async def test_a_shell_command_gets_each_argument_as_one_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    steps = [{"command": f"cd {tmp_path}"}, {"command": f"cat {tmp_path}/a.txt | grep UTCP_ARG_word_UTCP_END"}]
    inputs = {"type": "object", "properties": {"word": {"type": "string"}}}
    tool = {"name": "find", "inputs": inputs, "tool_call_template": {"call_template_type": "cli", "commands": steps}}
    async with connect_to_objects(build_manual(tool)) as client:
        assert await run_tool(client, "find", word="tw") == ("two", False)
        text, is_error = await run_tool(client, "find", word="x; echo two")
    assert "two" not in text
    assert not is_error


async def test_a_shell_command_runs_in_the_folder_of_its_manual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    template = {"call_template_type": "cli", "commands": [{"command": "pwd | cat"}]}
    (tmp_path / "manual.json").write_text(json.dumps(build_manual({"name": "where", "tool_call_template": template})))
    async with connect_to_objects(read_manual(tmp_path / "manual.json")) as client:
        assert await run_tool(client, "where") == (str(tmp_path), False)


ECHO = "printf '%s|' UTCP_ARG_word_UTCP_END"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (ECHO, {"word": "x", "other": "y"}, "$.other: is not declared by the tool. It takes word"),
        ("true; cat UTCP_ARG_word_UTCP_END", {"word": "-n"}, "$.word: the value begins with '-'"),
        ("true; cat 'UTCP_ARG_word_UTCP_END'", {"word": "-n"}, "$.word: the value begins with '-'"),
        ("cat -- a; cat UTCP_ARG_word_UTCP_END", {"word": "-n"}, "$.word: the value begins with '-'"),
        ('echo "$(echo UTCP_ARG_word_UTCP_END)"', {"word": "a -n"}, "$.word: the shell would interpret this value"),
        ('echo "$(echo "UTCP_ARG_word_UTCP_END")"', {"word": "*"}, "$.word: the shell would interpret this value"),
        ("echo $((1 < UTCP_ARG_word_UTCP_END))", {"word": "a[$(id)]"}, "$.word: the shell would interpret this value"),
    ],
)
async def test_a_shell_command_rejects_values_that_could_become_options(
    text: str, arguments: dict[str, str], message: str
) -> None:
    async with connect_to_objects(build_manual(build_shell_tool(text))) as client:
        output, is_error = await run_tool(client, "find", **arguments)
    assert is_error
    assert message in output


@pytest.mark.parametrize(
    ("text", "word", "output"),
    [
        (f"true; {ECHO}", "a b *", "a b *|"),
        ("true; printf '%s|' -- UTCP_ARG_word_UTCP_END", "-n", "--|-n|"),
        ("true; printf '%s|' \"below: UTCP_ARG_word_UTCP_END\"", "-5", "below: -5|"),
        ('echo "$(echo UTCP_ARG_word_UTCP_END)"', "a/b.txt", "a/b.txt"),
        ("echo $((1 + UTCP_ARG_word_UTCP_END))", "2", "3"),
    ],
)
async def test_a_shell_command_accepts_other_values(text: str, word: str, output: str) -> None:
    async with connect_to_objects(build_manual(build_shell_tool(text))) as client:
        assert await run_tool(client, "find", word=word) == (output, False)


def build_shell_tool(text: str) -> dict[str, Any]:
    """Return a tool with a shell command and a word as its argument."""
    inputs = {"type": "object", "properties": {"word": {"type": "string"}}}
    template = {"call_template_type": "cli", "commands": [{"command": text}]}
    return {"name": "find", "inputs": inputs, "tool_call_template": template}
