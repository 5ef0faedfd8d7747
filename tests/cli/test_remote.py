"""`list`, `call`, `read` and `get` have the same results for a file, a URL and a command."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.kits.cli.cli_running import RunHere, run, start_command

SOURCE = '''
from mcp_bridge import CallContext, prompt, resource, tool

@tool
async def take(item: str, ctx: CallContext, amount: int = 1) -> dict:
    """Take something."""
    await ctx.report_progress(1, 2, "half")
    await ctx.log("info", "taking")
    return {"item": item, "amount": amount}

@tool
def fail() -> str:
    raise ValueError("broken")

@resource("shelf://all")
def shelf() -> str:
    """List the shelf."""
    return "pears"

@resource("shelf://{name}")
def one(name: str) -> str:
    return name

@resource("shelf://picture")
def picture() -> bytes:
    return b"\\x89PNG\\r\\n"

@prompt
def greet(who: str, how: str = "Hello") -> str:
    return f"{how} {who}"
'''
TAKEN = '{"item":"5","amount":2}\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "tools.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    options = ("--http", "127.0.0.1:0", "--token-env", "SECRET")
    with start_command("serve", "tools.py", *options, cwd=folder, env={"SECRET": "a-secret-token"}) as server:
        match = re.search(r"http://\S+/mcp", server.wait_for("Serving"))
        assert match is not None
        yield match.group()


@pytest.fixture(params=["file", "url", "command"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Return the words for the server, before and after the other words."""
    if request.param == "file":
        return ["tools.py"], []
    if request.param == "command":
        return [], ["--", sys.executable, "-m", "mcp_bridge", "serve", "tools.py"]
    monkeypatch.setenv("SECRET", "a-secret-token")
    return [request.getfixturevalue("url")], ["--token-env", "SECRET"]


Server = tuple[list[str], list[str]]


def test_everything_is_listed(server: Server, folder: Path) -> None:
    before, after = server
    rows = run("list", *before, "--json", *after, cwd=folder).json
    assert [row["kind"] for row in rows] == ["tool", "tool", "resource", "resource", "template", "prompt"]
    take = next(row for row in rows if row["name"] == "take")
    assert take["input_schema"]["properties"]["amount"] == {"default": 1, "type": "integer"}
    result = run("list", *before, *after, cwd=folder)
    assert "item: string, amount: integer = 1" in result.out
    assert "who, how?" in result.out
    assert "shelf://{name}" in result.out
    assert result.err == ""


def test_a_call_has_typed_arguments_progress_and_a_log(server: Server, folder: Path) -> None:
    before, after = server
    result = run("call", *before, "take", "item=5", "amount=2", *after, cwd=folder)
    assert (result.code, result.out) == (0, TAKEN)
    assert result.err.splitlines() == ["half (1/2)", "info: taking"]
    row = run("call", *before, "take", "--json", '{"item": "5", "amount": 2}', *after, cwd=folder).json
    assert (row["ok"], row["output"]) == (True, {"item": "5", "amount": 2})
    assert row["duration_ms"] > 0


def test_calls_that_fail_have_the_exit_codes_of_calls_of_files(server: Server, folder: Path) -> None:
    before, after = server
    result = run("call", *before, "fail", *after, cwd=folder)
    assert (result.code, result.out) == (1, "")
    assert "reference" in result.err
    result = run("call", *before, "tak", *after, cwd=folder)
    assert (result.code, result.err) == (3, "mcp-bridge: Unknown tool: tak. Did you mean 'take'?\n")


def test_a_resource_is_read(server: Server, folder: Path) -> None:
    before, after = server
    assert run("read", *before, "shelf://all", *after, cwd=folder).out == "pears\n"
    assert run("read", *before, "shelf://plums", *after, cwd=folder).out == "plums\n"
    result_json = run("read", *before, "shelf://picture", "--json", *after, cwd=folder).json
    assert result_json["contents"][0]["blob"] == "iVBORw0K"
    result = run("read", *before, "nowhere://x", *after, cwd=folder)
    assert (result.code, result.out) == (1, "")
    assert result.err == "mcp-bridge: the server returned an error: Resource not found: nowhere://x\n"


def test_a_prompt_is_shown_with_its_arguments(server: Server, folder: Path) -> None:
    before, after = server
    assert run("get", *before, "greet", "who=you", "how=a=b", *after, cwd=folder).out == "user: a=b you\n"
    result_json = run("get", *before, "greet", "who=you", "--json", *after, cwd=folder).json
    assert result_json["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello you"}}]
    result = run("get", *before, "greet", *after, cwd=folder)
    assert (result.code, result.out) == (1, "")
    assert "$.who: required field missing" in result.err


def test_the_target_of_a_call_can_be_named_first_or_by_an_option(run_here: RunHere, folder: Path) -> None:
    file = str(folder / "tools.py")
    assert run_here("call", file, "take", "item=5", "amount=2").out == TAKEN
    assert run_here("call", "take", "item=5", "amount=2", "--file", file).out == TAKEN
    assert run_here("call", str(folder), "take", "item=5", "amount=2").out == TAKEN


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["list", "http://127.0.0.1:9/mcp"], 1, "the server cannot be reached: All connection attempts failed"),
        (["list", "--", "no-such-command"], 1, "the program 'no-such-command' was not found. Install it"),
        (["list", "--", sys.executable, "-c", ""], 1, "the server ended with exit code 0"),
        (["list", "--"], 2, "--command: the command is empty"),
        (["list", "--command", "'"], 2, "--command: ''' is not a command"),
        (["list", "x.py", "--", "cat"], 2, "--command: cannot be used with 'x.py'. Choose one of them"),
        (["list", "x.py", "--token-env", "X"], 2, "--token-env: needs the URL of a server"),
        (["list", "http://x", "--token-env", "NOT_SET_X"], 2, "--token-env: the environment variable NOT_SET_X"),
        (["list", "http://x", "--tag", "a"], 2, "--tag: MCP servers do not publish tags"),
        (
            ["list", "localhost:8808/mcp"],
            2,
            "localhost:8808/mcp: no such file or folder. The URL of a server begins",
        ),
        (["call", "tools.py"], 2, "no tool was given. `mcp-bridge list tools.py` lists what is available"),
        (["read", "tools.py"], 2, "no URI was given. `mcp-bridge list tools.py` lists what is available"),
        (["read", "a", "b", "c"], 2, "read: found 3 words. Use: mcp-bridge read [TARGET] URI"),
        (["get", "greet", "who"], 2, "arguments: 'who' is not name=value"),
    ],
)
def test_a_server_that_cannot_be_used_is_an_error(tmp_path: Path, words: list[str], code: int, problem: str) -> None:
    result = run(*words, cwd=tmp_path)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"mcp-bridge: {problem}"), result.err


def test_a_url_that_is_not_an_mcp_server_is_a_short_error(tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        result = run("list", f"http://127.0.0.1:{server.server_port}/", cwd=tmp_path)
        server.shutdown()
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err
    assert result.err.splitlines()[-1] == (
        "mcp-bridge: the server sent something else than the response to this request. "
        "Check the address, or use `mcp-bridge doctor`"
    )


def test_a_line_that_is_not_a_message_is_logged_without_a_traceback(folder: Path) -> None:
    script = "print('hello', flush=True); import runpy; runpy.run_module('mcp_bridge', run_name='__main__')"
    result = run(
        "list", "--quiet", "--log-level", "warning", "--", sys.executable, "-c", script, "serve", "tools.py", cwd=folder
    )
    assert (result.code, result.out) == (0, "fail\ntake\n")
    assert re.fullmatch(r".* WARNING mcp_bridge.upstream: .* sent something that is not a message, .*\n", result.err)


def test_a_url_without_its_token_is_rejected(url: str, tmp_path: Path) -> None:
    result = run("list", url, cwd=tmp_path)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(
        f"mcp-bridge: the server requires authorization. Sign in with `mcp-bridge login {url}`"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--port", "9000"], "'serve' has no option --port. Serve over HTTP with: --http 9000"),
        (["--transport=http", "--host", "::1"], "Serve over HTTP with: --http [::1]:8808"),
        (
            ["--transport", "stdio"],
            "'serve' has no option --transport. Leave it out: stdio is the default",
        ),
    ],
)
def test_serve_explains_the_options_of_other_commands(run_here: RunHere, words: list[str], hint: str) -> None:
    result = run_here("serve", "tools.py", *words)
    assert (result.code, result.out) == (2, "")
    assert hint in result.err


def test_json_of_a_remote_listing_has_the_keys_of_a_local_one(folder: Path) -> None:
    local = run("list", "tools.py", "--json", cwd=folder).json
    after = ["--", sys.executable, "-m", "mcp_bridge", "serve", "tools.py"]
    remote = json.loads(run("list", "--json", *after, cwd=folder).out)
    assert [row.keys() for row in local] == [row.keys() for row in remote]


@pytest.mark.parametrize("arguments", [("item=pears",), ('{"item": "pears"}',)])
def test_a_tool_is_called_although_there_is_a_folder_of_its_name(
    run_here: RunHere, folder: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "tools.py").write_text(SOURCE)
    (tmp_path / "take").mkdir()
    (tmp_path / "take" / "other.py").write_text("raise SystemExit('it was imported')")
    result = run_here("call", "take", *arguments)
    assert (result.code, result.out) == (0, '{"item":"pears","amount":1}\n')
    assert run_here("call", "fail").code == 1
