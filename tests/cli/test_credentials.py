"""Commands with a URL send headers with values from elsewhere, and the token of an earlier `mcp-bridge login`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.kits.cli.cli_running import RunHere, run_in_interpreter
from tests.kits.upstream.oauth_server import OAuthServer, run_oauth_server

SECRET = "s3cret-of-the-user"
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"


class EchoHandler(BaseHTTPRequestHandler):
    """Responds to each request with an error that contains its headers."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = f"the headers are {self.headers.items()}"
        body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": -32000, "message": message}})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with run_oauth_server() as server:
        yield server


@pytest.mark.parametrize("command", [["list"], ["call", "take"], ["read", "shelf://all"], ["get", "greet"], ["doctor"]])
def test_a_header_is_sent_but_never_shown(
    run_here: RunHere, monkeypatch: pytest.MonkeyPatch, echo_url: str, command: list[str]
) -> None:
    monkeypatch.setenv("KEY_OF_THE_USER", SECRET)
    name, *words = command
    options = ["--header", "X-Api-Key=env:KEY_OF_THE_USER", "--header", "Authorization=Bearer env:KEY_OF_THE_USER"]
    result = run_here(name, echo_url, *words, *options)
    assert result.code == 1
    shown = result.out + result.err
    assert "x-api-key" in shown
    assert "[secret]" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (f"X-Key={SECRET}", "the value of x-key is not a reference. Set a variable to the value, and write x-key=env:"),
        (f"X-Key: {SECRET}", "Write it as --header NAME=env:VARIABLE"),
        (SECRET, "Write it as --header NAME=env:VARIABLE"),
        ("X-Key=env:UNSET_VARIABLE", "--header x-key: the environment variable UNSET_VARIABLE is not set"),
        ("X-Key=file:/no/such/file", "--header x-key: /no/such/file cannot be read"),
        ("X-Key=env:TWO_LINES", "the value of x-key has characters that no header can have"),
        ("Mcp-Session-Id=env:KEY_OF_THE_USER", "the protocol itself sets mcp-session-id"),
    ],
)
def test_a_wrong_header_is_explained_without_its_value(
    run_here: RunHere, monkeypatch: pytest.MonkeyPatch, header: str, problem: str
) -> None:
    monkeypatch.setenv("KEY_OF_THE_USER", SECRET)
    monkeypatch.setenv("TWO_LINES", f"{SECRET}\n{SECRET}")
    result = run_here("list", "http://127.0.0.1:9/mcp", "--header", header)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert SECRET not in result.err


@pytest.mark.parametrize("words", [["tools.py"], ["--command", "some-server"]])
def test_a_header_needs_a_url(run_here: RunHere, words: list[str]) -> None:
    result = run_here("list", *words, "--header", "X-Key=env:HOME")
    assert (result.code, result.err) == (
        2, "mcp-bridge: --header: needs the URL of a server. Pass a URL, or leave it out\n",
    )  # fmt: skip


def test_a_url_without_credentials_uses_the_stored_sign_in(tmp_path: Path, server: OAuthServer) -> None:
    (tmp_path / "browser.py").write_text(BROWSER)
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "BROWSER": f"{sys.executable} {tmp_path}/browser.py %s"}
    url = f"{server.base}/mcp"

    first = run_in_interpreter("list", url, cwd=tmp_path, env=env)
    assert first.code == 1
    assert f"Sign in with `mcp-bridge login {url}`, or pass a token with --token-env or --header" in first.err

    login = run_in_interpreter("login", url, "--no-keyring", cwd=tmp_path, env=env)
    assert login.code == 0, login.err
    assert login.out.startswith(f"signed in to {url}; the tokens are in the file ")

    assert run_in_interpreter("list", url, "--quiet", cwd=tmp_path, env=env).out == "read\n"
    call = run_in_interpreter("call", url, "read", cwd=tmp_path, env=env)
    assert call.code == 0, call.err
    assert server.authorizations[-1] == f"Bearer {server.issued[-1]}"
    doctor = run_in_interpreter("doctor", url, "--json", cwd=tmp_path, env=env)
    assert doctor.json["ok"], doctor.out
    assert server.issued[-1] not in login.out + login.err + doctor.out + doctor.err


def test_the_password_in_a_url_is_not_used_to_sign_in(run_here: RunHere) -> None:
    result = run_here("login", f"https://user:{SECRET}@example.com/mcp")
    assert result.code == 2
    assert "the URL contains a user name or password" in result.err
    assert SECRET not in result.err
