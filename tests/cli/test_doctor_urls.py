"""`doctor` of a URL and of a command after `--`, and the report of a wait for a silent server."""

from __future__ import annotations

import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mcp_bridge._cli.doctor import conversation
from tests.kits.cli.cli_running import TOOLS, RunHere, start_command

CHECKS = ["stateless 2026-07-28", "handshake 2025-11-25"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("--http", "127.0.0.1:0", "--token-env", "SECRET")
    folder = tmp_path_factory.mktemp("served")
    with start_command("serve", TOOLS, *options, cwd=folder, env={"SECRET": "a-secret-token"}) as server:
        match = re.search(r"http://\S+/mcp", server.wait_for("Serving"))
        assert match is not None
        yield match.group()


@contextmanager
def serve_response(status: int, body: bytes, media_type: str = "application/json", **headers: str) -> Iterator[str]:
    """Start a server with one response for all requests, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in {"Content-Type": media_type, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


def test_a_url_is_checked_in_both_eras(run_here: RunHere, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "a-secret-token")
    result = run_here("doctor", url, "--token-env", "SECRET", "--call", 'echo={"text": "hello"}')
    assert result.code == 0
    first, *checks = result.out.splitlines()
    assert first == f"url: {url}"
    assert checks[:2] == [
        f"ok   {CHECKS[0]}: 'cli_tools' responds, 12 tools",
        f"ok   {CHECKS[1]}: 'cli_tools' speaks 2025-11-25, 12 tools",
    ]
    assert checks[2].startswith("ok   call of 'echo': returned after")
    assert "hello" in checks[2]
    report = run_here("doctor", url, "--token-env", "SECRET", "--json").json
    assert (report["url"], report["ok"], len(report["checks"])) == (url, True, 2)


def test_a_missing_token_is_the_cause(run_here: RunHere, url: str) -> None:
    result = run_here("doctor", url)
    assert result.code == 1
    assert f"FAIL {CHECKS[0]}: the response to server/discover has the status 401 Unauthorized" in result.out
    assert "--token-env NAME" in result.out


@pytest.mark.parametrize(
    ("status", "body", "media_type", "problem"),
    [
        (404, b"nothing here", "text/plain", "has the status 404 Not Found"),
        (
            400,
            b'{"jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}}',
            "application/json",
            "does not know server/discover",
        ),
        (200, b"<html>", "text/html", "the response to server/discover is not a message: '<html>'"),
        (200, b'{"jsonrpc": "2.0", "id": 1, "result": 3}', "application/json", "is neither a result nor an error"),
        (
            200,
            b'data: {"jsonrpc": "2.0", "id": 1,\ndata: "result": {}}\n\n',
            "text/event-stream",
            "the response to tools/list is missing",
        ),
        (200, b": nothing\n\n", "text/event-stream", "the response to server/discover is missing"),
        (202, b"", "application/json", "the response to server/discover is missing"),
    ],
)
def test_responses_that_are_not_mcp_are_reported(
    run_here: RunHere, status: int, body: bytes, media_type: str, problem: str
) -> None:
    with serve_response(status, body, media_type) as url:
        result = run_here("doctor", url, "--json")
    assert result.code == 1
    check = result.json["checks"][0]
    assert problem in check["detail"] or problem in check["advice"]
    assert check["advice"]


def test_a_redirect_is_reported_and_not_followed(run_here: RunHere) -> None:
    with serve_response(302, b"", Location="http://127.0.0.1:9/elsewhere") as url:
        result = run_here("doctor", url)
    assert result.code == 1
    assert "the server redirects to http://127.0.0.1:9/elsewhere" in result.out


def test_a_url_without_a_server_is_reported(run_here: RunHere) -> None:
    result = run_here("doctor", "http://127.0.0.1:9/mcp")
    assert result.code == 1
    assert f"FAIL {CHECKS[0]}: the server cannot be reached: " in result.out


def test_a_url_without_responses_times_out_and_the_wait_is_reported(
    run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "NOTICE_DELAY", 0.05)
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler, bind_and_activate=True) as server:
        result = run_here("doctor", f"http://127.0.0.1:{server.server_address[1]}/mcp", "--timeout", "0.4")
    assert result.code == 1
    assert f"FAIL {CHECKS[0]}: no response to server/discover within 0.4 seconds" in result.out
    assert result.err.splitlines() == [
        "waiting for the response to server/discover, at most 0.4 seconds",
        "waiting for the response to initialize, at most 0.4 seconds",
    ]


def test_the_wait_for_a_silent_process_is_reported_on_stderr(
    run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "NOTICE_DELAY", 0.05)
    result = run_here(
        "doctor", "--json", "--timeout", "0.4", "--", sys.executable, "-c", "import time; time.sleep(100)"
    )
    assert result.code == 1
    assert result.json["command"] == [sys.executable, "-c", "import time; time.sleep(100)"]
    assert result.err.splitlines()[0] == "waiting for the response to server/discover, at most 0.4 seconds"


def test_a_command_after_two_dashes_is_checked(run_here: RunHere, tmp_path: Path) -> None:
    result = run_here("doctor", "--", sys.executable, "-m", "mcp_bridge", "serve", str(TOOLS))
    assert result.code == 0
    assert f"ok   {CHECKS[1]}: 'cli_tools' speaks 2025-11-25, 12 tools" in result.out


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_a_token_that_no_header_can_have_is_rejected_and_not_shown(
    run_here: RunHere, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "the-token\n")
    result = run_here(command, "http://127.0.0.1:1/mcp", "--token-env", "SECRET")
    assert "the-token" not in result.out + result.err
    assert "SECRET has characters that no HTTP header can have" in result.err


@pytest.mark.parametrize("command", ["doctor", "list", "top"])
@pytest.mark.parametrize("url", ["http://[::1/mcp", "http://127.0.0.1:port/mcp", "http://127.0.0.1:99999/mcp"])
def test_an_invalid_url_is_rejected(run_here: RunHere, command: str, url: str) -> None:
    result = run_here(command, url)
    assert "URL: the URL is not valid. Write it as http://HOST:PORT/mcp" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_a_password_in_a_url_is_rejected_and_not_shown(run_here: RunHere, command: str) -> None:
    result = run_here(command, "http://anna:hidden@127.0.0.1:1/mcp")
    assert "hidden" not in result.out + result.err
    assert "the URL contains a user name or password. Remove them" in result.err
