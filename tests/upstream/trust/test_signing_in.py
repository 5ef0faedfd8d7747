"""The user signs in once to a server with OAuth, and the bridge stores the tokens."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.cli.cli_running import CommandResult, run
from tests.kits.upstream.oauth_server import OAuthServer, run_oauth_server
from tests.kits.upstream.trust_kit import call_tool, list_tools

BROWSER = """
import sys
from urllib.request import ProxyHandler, build_opener

build_opener(ProxyHandler({})).open(sys.argv[1]).read()
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OAuthServer]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    with run_oauth_server() as server:
        source = {"type": "mcp", "name": "tickets", "url": f"{server.base}/mcp", "auth": "oauth"}
        (tmp_path / "gateway.json").write_text(json.dumps({"sources": [source]}))
        yield server


def build(folder: Path) -> Bridge:
    return build_from_settings(load(folder / "gateway.json", {}))


def sign_in(folder: Path, name: str = "tickets", **environ: str) -> CommandResult:
    """Run the command with a browser that signs in immediately."""
    (folder / "browser.py").write_text(BROWSER)
    browser = f"{sys.executable} {folder}/browser.py %s"
    return run("login", name, "gateway.json", cwd=folder, env={"BROWSER": browser, **environ})


def find_token_file(folder: Path) -> Path:
    (file,) = (folder / "state" / "mcp-bridge" / "oauth").iterdir()
    return file


async def test_a_user_signs_in_once_and_the_token_is_sent(tmp_path: Path, server: OAuthServer) -> None:
    process = sign_in(tmp_path)
    file = find_token_file(tmp_path)
    assert (process.code, process.out) == (0, f"signed in to tickets; the tokens are in the file {file}\n"), process.err
    assert f"{server.base}/auth/authorize" in process.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for _ in range(2):
        async with connect(build(tmp_path)) as client:
            assert await call_tool(client, "tickets__read") == {"authorization": "Bearer [secret]"}
    assert len(server.issued) == 1


async def test_without_signing_in_only_this_server_is_missing_and_the_problem_names_the_command(
    tmp_path: Path, server: OAuthServer
) -> None:
    bridge = build(tmp_path)
    async with connect(bridge) as client:
        assert await list_tools(client) == {}
    assert bridge.problems["tickets"] == ["the server is not connected: sign in first, with: mcp-bridge login tickets"]
    assert server.authorizations == []


async def test_a_token_is_refreshed_before_it_expires(tmp_path: Path, server: OAuthServer) -> None:
    server.lifetime = 1
    assert sign_in(tmp_path).code == 0
    server.lifetime = 3600
    async with connect(build(tmp_path)) as client:
        await call_tool(client, "tickets__read")
    assert server.refreshes == 1
    assert json.loads(find_token_file(tmp_path).read_text())["tokens"]["access_token"] == server.issued[-1]


async def test_a_token_that_the_server_rejects_is_refreshed(tmp_path: Path, server: OAuthServer) -> None:
    assert sign_in(tmp_path).code == 0
    async with connect(build(tmp_path)) as client:
        server.valid = set()
        assert await call_tool(client, "tickets__read") == {"authorization": "Bearer [secret]"}
    assert server.refreshes == 1
    assert server.authorizations[-1] == f"Bearer {server.issued[-1]}"


def test_signing_in_uses_the_proxy_of_the_environment(tmp_path: Path, server: OAuthServer) -> None:
    process = sign_in(tmp_path, HTTP_PROXY=server.base, http_proxy=server.base)
    assert process.code == 0, process.err
    # A proxy receives whole addresses (RFC 9112, 3.2.2).
    assert f"{server.base}/mcp" in server.paths
    assert f"{server.base}/auth/token" in server.paths


def test_signing_in_sends_no_request_to_an_internal_address_in_a_response(tmp_path: Path, server: OAuthServer) -> None:
    server.challenge = 'Bearer resource_metadata="http://169.254.169.254/latest"'
    process = sign_in(tmp_path)
    assert process.code != 0
    assert "the addresses of '169.254.169.254' (169.254.169.254) are not public" in process.err


async def test_refreshing_a_token_sends_requests_only_to_the_host_of_the_issuer(
    tmp_path: Path, server: OAuthServer
) -> None:
    assert sign_in(tmp_path).code == 0
    with run_oauth_server() as second_server:
        host = second_server.base.replace("127.0.0.1", "localhost")
        server.challenge = f'Bearer resource_metadata="{host}/.well-known/oauth-protected-resource/mcp"'
        server.rejects_refreshes = True
        async with connect(build(tmp_path)) as client:
            server.valid = set()
            await client.call_tool("tickets__read", {})
        assert second_server.paths == []


def test_signing_in_to_a_server_without_tokens_succeeds(tmp_path: Path, server: OAuthServer) -> None:
    server.is_open = True
    assert sign_in(tmp_path).out == "tickets can be used without signing in\n"


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("ticket", {}, "there is no server 'ticket'. Servers: tickets"),
        ("tickets", {"auth": None}, "does not use OAuth"),
        ("tickets", {"url": None, "command": "tickets"}, "auth requires url"),
    ],
)
def test_errors_of_the_command_have_advice(
    tmp_path: Path, server: OAuthServer, name: str, changes: dict[str, Any], problem: str
) -> None:
    settings = json.loads((tmp_path / "gateway.json").read_text())
    settings["sources"][0] |= changes
    (tmp_path / "gateway.json").write_text(json.dumps(settings))
    process = sign_in(tmp_path, name)
    assert process.code == 2
    assert problem in process.err
