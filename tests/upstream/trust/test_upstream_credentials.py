"""Credentials for upstreams come from references, and are not visible elsewhere."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import keyring
import pytest
from keyring.backend import KeyringBackend

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.cli.cli_running import run
from tests.kits.http.http_hosting import make_stateless_request
from tests.kits.http.http_process import get_command, run_http_server
from tests.kits.upstream.trust_kit import ScriptedGateway, call_tool, describe_tool, list_tools

SECRET = "planted-7f3a9c-secret"
FRONT = "front-door-token-5512"


@pytest.fixture
def gateway(tmp_path: Path) -> ScriptedGateway:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("read"))
    return gateway


class Vault(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def get_password(self, service: str, username: str) -> str | None:
        return SECRET if (service, username) == ("files", "me@example.com") else None

    def set_password(self, service: str, username: str, password: str) -> None: ...


@pytest.fixture
def vault() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(Vault())
    yield
    keyring.set_keyring(before)


@contextlib.contextmanager
def run_recording_server(accepted: set[str] | None = None) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the URL of a server, and all its received headers. Its only tool fails with the headers of its request.

    `accepted` are the values of `Authorization` without status 401; by default, it accepts all.
    """
    values: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            values.append({name.lower(): value for name, value in self.headers.items()})
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if accepted is not None and self.headers["authorization"] not in accepted:
                self.send_error(401)
                return
            results: dict[str, Any] = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "recording", "version": "1"},
                },
                "tools/list": {"tools": [describe_tool("read")]},
                "tools/call": {"content": [{"type": "text", "text": json.dumps(values[-1])}], "isError": True},
            }
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
            if request["method"] in results:
                answer["result"] = results[request["method"]]
            else:
                answer["error"] = {"code": -32601, "message": "unknown"}
            body = json.dumps(answer).encode()
            self.send_response(200 if "id" in request else 202)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", values
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("case", ["variable", "file", "home", "keyring"])
async def test_a_reference_in_the_environment_is_replaced_when_the_server_starts(
    gateway: ScriptedGateway, case: str, monkeypatch: pytest.MonkeyPatch, vault: None
) -> None:
    (gateway.folder / "secret").write_text(SECRET + "\n")
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("HOME", str(gateway.folder))
    references = {
        "variable": "env:MY_TOKEN",
        "file": f"file:{gateway.folder}/secret",
        "home": "file:~/secret",
        "keyring": "keyring:files/me@example.com",
    }
    gateway.options = {"env": {"TOKEN": references[case], "PLAIN": "file:data.db", "URL": "file:///data.db?mode=ro"}}
    bridge = gateway.build()
    async with connect(bridge) as client:
        env = (await call_tool(client, "files__read"))["env"]
    assert env["TOKEN"] == "[secret]"
    assert (env["PLAIN"], env["URL"]) == ("file:data.db", "file:///data.db?mode=ro")


async def test_a_reference_in_a_header_may_follow_the_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    with run_recording_server() as (url, values):
        source = {"type": "mcp", "name": "files", "url": url}
        source["headers"] = {"Authorization": "Bearer env:MY_TOKEN", "X-Plain": "plain"}
        (tmp_path / "gateway.json").write_text(json.dumps({"sources": [source]}))
        async with connect(build_from_settings(load(tmp_path / "gateway.json", {}))) as client:
            assert SECRET not in await call_tool(client, "files__read")
    assert {headers["authorization"] for headers in values} == {f"Bearer {SECRET}"}
    assert {headers["x-plain"] for headers in values} == {"plain"}


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("env:MISSING_TOKEN", "env.TOKEN: the environment variable MISSING_TOKEN is not set"),
        ("file:/missing/secret", "env.TOKEN: /missing/secret cannot be read: No such file or directory"),
        ("keyring:files/you", "env.TOKEN: the keyring has no 'you' of 'files'"),
    ],
)
async def test_a_missing_credential_affects_only_its_server(
    gateway: ScriptedGateway, reference: str, problem: str, vault: None
) -> None:
    gateway.options = {"env": {"TOKEN": reference}}
    bridge = gateway.build()
    async with connect(bridge) as client:
        assert await list_tools(client) == {}
        assert bridge.problems["files"] == [f"the server is not connected: {problem}"]


async def test_the_error_without_a_keyring_names_the_extra(gateway: ScriptedGateway) -> None:
    gateway.options = {"env": {"TOKEN": "keyring:files/me"}}
    bridge = gateway.build()
    with mock.patch.dict(sys.modules, {"keyring": None}):
        async with connect(bridge):
            assert "install the extra 'keyring'" in bridge.problems["files"][0]


async def test_a_credential_with_a_line_break_is_rejected_as_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", f"{SECRET}\r\nX-Evil: 1")
    source = {"type": "mcp", "name": "files", "url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "env:MY_TOKEN"}}
    (tmp_path / "gateway.json").write_text(json.dumps({"sources": [source]}))
    bridge = build_from_settings(load(tmp_path / "gateway.json", {}))
    async with connect(bridge):
        assert bridge.problems["files"] == [
            "the server is not connected: headers.X-Key: "
            "the credential has characters that a header cannot have, or spaces at its ends"
        ]


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("validate",), ("doctor",)])
@pytest.mark.parametrize("program", [sys.executable, "/missing/program"])
def test_no_command_shows_a_credential(gateway: ScriptedGateway, arguments: tuple[str, ...], program: str) -> None:
    (gateway.folder / "secret").write_text(SECRET)
    gateway.options = {"env": {"TOKEN": f"file:{gateway.folder}/secret"}, "command": program}
    gateway.write_settings()
    process = run(arguments[0], gateway.file.name, *arguments[1:], cwd=gateway.folder)
    assert process.out + process.err
    assert SECRET not in process.out + process.err


async def test_a_credential_that_the_server_rejects_is_read_again(tmp_path: Path) -> None:
    file, accepted = tmp_path / "token", {"Bearer old-token-5512"}
    file.write_text("old-token-5512")
    with run_recording_server(accepted) as (url, values):
        source = {"type": "mcp", "name": "files", "url": url, "headers": {"Authorization": f"Bearer file:{file}"}}
        (tmp_path / "gateway.json").write_text(json.dumps({"sources": [source]}))
        async with connect(build_from_settings(load(tmp_path / "gateway.json", {}))) as client:
            assert "Bearer [secret]" in await call_tool(client, "files__read")
            accepted |= {"Bearer new-token-5512"}
            accepted -= {"Bearer old-token-5512"}
            assert "requires authorization (HTTP status 401)" in await call_tool(client, "files__read")
            file.write_text("new-token-5512")
            for _ in range(2):
                assert "Bearer [secret]" in await call_tool(client, "files__read")
    assert [item["authorization"] for item in values[-3:]] == [
        "Bearer old-token-5512",
        "Bearer new-token-5512",
        "Bearer new-token-5512",
    ]


async def test_the_authorization_of_a_client_is_never_forwarded(tmp_path: Path) -> None:
    with run_recording_server() as (url, values):
        source = {"type": "mcp", "name": "files", "url": url}
        (tmp_path / "gateway.json").write_text(json.dumps({"sources": [source]}))
        argv = get_command("gateway.json", "--http", "127.0.0.1:0", "--token-env", "FRONT")
        async with run_http_server(tmp_path, argv, {"FRONT": FRONT}) as bridge, httpx2.AsyncClient() as http:
            headers = {"authorization": f"Bearer {FRONT}", "x-api-key": FRONT, "cookie": f"session={FRONT}"}
            request = make_stateless_request("tools/call", {"name": "files__read", "arguments": {}}, **headers)
            answer = await http.post(f"{bridge.base}/mcp", **request)
    assert answer.json()["result"]["isError"]
    assert len(values) >= 3
    assert not [headers for headers in values if "authorization" in headers or FRONT in str(headers)]
