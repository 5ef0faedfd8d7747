"""`serve`: all settings take effect, and the errors of a source do not affect other sources."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

from tests.kits.cli.cli_running import (
    COMMAND,
    LIST,
    TOOLS,
    CommandResult,
    RunHere,
    format_requests,
    get_text,
    list_names,
    make_call,
    serve_requests,
    start_command,
)
from tests.kits.constants import STATELESS, TIMEOUT

FIRST = """
import time
from mcp_bridge import tool

@tool(tags=["red", "round"])
def plain() -> str:
    return "plain"

@tool(tags=["blue"])
def plane() -> str:
    return "plane"

@tool(tags=["blue"])
def other() -> str:
    return "other"

@tool(tags=["red", "round"])
def plan_secret() -> str:
    return "hidden"

@tool(tags=["red", "round"])
def slow() -> str:
    time.sleep(1)
    return "late"

@tool(tags=["red", "round"])
def breaks() -> str:
    raise ValueError("seen by everybody")

def unmarked(a: int) -> int:
    "Not a tool, unless the settings say so."
    return a + 1
"""
SECOND = """
from mcp_bridge import tool

@tool
def plain() -> str:
    return "second plain"
"""
EVERYTHING = """
name: ${SERVER_NAME}
version: 9.8.7
title: Every setting
instructions: Call plain first.
expose_errors: true
limits: {timeout: 300ms, threads: 2, arguments: 1 KiB}
http: {host: 127.0.0.1, port: 0, token_env: TEST_TOKEN,
       allowed_hosts: [tools.example], allowed_origins: ["https://web.example"]}
sources:
  - type: python
    name: first
    path: ${TOOLS_FOLDER:-.}/first.py
    prefix: one
    alias: {slow: snail}
    include: [plan*, plain, other, slow, breaks]
    exclude: ["*_secret"]
    tags: [red, round]
  - type: python
    module: second
  - type: python
    name: third
    path: first.py
    tools: [unmarked]
    include: [unmarked]
  - type: clocks:Clock
    name: plugin
    hour: 7
"""
PLUGIN = """
from pydantic import BaseModel

from mcp_bridge.sources import Offer, Source, ToolEntry

class Clock(Source):
    class Options(BaseModel):
        hour: int

    async def run(self, publish):
        publish(Offer(tools=[ToolEntry("hour", "The hour.", lambda data: str(self.options.hour), {})]))
"""
SECRET = "tok-5f2c91"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "first.py": FIRST,
        "second.py": SECOND,
        "clocks.py": PLUGIN,
        "everything.yaml": EVERYTHING,
    }.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def make_environment(folder: Path) -> dict[str, str]:
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"SERVER_NAME": "ours", "TEST_TOKEN": SECRET, "PYTHONPATH": os.pathsep.join(path)}


async def test_a_file_with_all_settings_takes_effect(folder: Path) -> None:
    coverage_variables = {key: value for key, value in os.environ.items() if "COV" in key}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_bridge", "serve", str(folder / "everything.yaml")],
        env={**get_default_environment(), **coverage_variables, **make_environment(folder)},
        cwd=os.path.sep,
    )
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(server)) as client:
            who = client.server_info
            assert who is not None
            assert (who.name, who.version, who.title) == ("ours", "9.8.7", "Every setting")
            assert client.instructions == "Call plain first."
            list_names = [tool.name for tool in (await client.list_tools()).tools]
            assert list_names == ["hour", "one__breaks", "one__plain", "plain", "snail", "unmarked"]
            answers = {}
            for name in ("hour", "one__plain", "plain", "snail", "one__breaks"):
                result = await client.call_tool(name, {})
                answers[name] = result.content[0].text
            assert (await client.call_tool("unmarked", {"a": 1})).content[0].text == "2"
    assert (answers["hour"], answers["one__plain"], answers["plain"]) == ("7", "plain", "second plain")
    assert "did not finish within 0.3 seconds" in answers["snail"]
    assert "ValueError: seen by everybody" in answers["one__breaks"]


def test_the_http_settings_take_effect(folder: Path) -> None:
    options = ("serve", folder / "everything.yaml", "--http", "settings")
    body = format_requests(LIST).strip()
    headers = {
        "Authorization": f"Bearer {SECRET}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/list",
    }
    with start_command(*options, cwd=folder, env=make_environment(folder)) as command:
        line = command.wait_for("Serving")
        assert "Serving 6 tools on http://127.0.0.1:" in line
        url = line.split()[4]
        with httpx2.Client(timeout=TIMEOUT) as client:
            assert client.post(url, content=body, headers={**headers, "Authorization": "Bearer no"}).status_code == 401
            assert client.post(url, content=body, headers={**headers, "Host": "evil.example"}).status_code in {403, 421}
            assert client.post(url, content=body, headers={**headers, "Host": "tools.example"}).status_code == 200
            assert (
                client.post(url, content=body, headers={**headers, "Origin": "https://no.example"}).status_code == 403
            )
            assert (
                client.post(url, content=body, headers={**headers, "Origin": "https://web.example"}).status_code == 200
            )
            assert client.post(url, content=body + " " * 2048, headers=headers).status_code == 413
        command.interrupt()
        result = command.end()
    assert result.code == 0
    assert SECRET not in result.err


def test_prints_at_import_and_in_a_tool_never_reach_the_client(folder: Path) -> None:
    file = folder / "loud.py"
    file.write_text(f'print("printed at import")\n{TOOLS.read_text()}')
    (called,), result = serve_requests(file, make_call("loud"))
    assert get_text(called) == "answer"
    assert len(result.out.splitlines()) == 1
    assert "printed at import" in result.err
    assert "printed by the tool" in result.err


def write_settings(folder: Path, *sources: str) -> Path:
    file = folder / "some.yaml"
    file.write_text("sources:\n" + "".join(f"  - {{{source}}}\n" for source in sources))
    return file


def test_what_a_tool_prints_appears_on_stderr_during_the_call(tmp_path: Path) -> None:
    source = "import time\nfrom mcp_bridge import tool\n\n@tool\ndef talk():\n  print('begun')\n  time.sleep(3600)\n"
    (tmp_path / "tools.py").write_text(source)
    with start_command("serve", cwd=tmp_path) as server:
        server.send(make_call("talk"))
        server.wait_for("begun")


def test_two_tools_with_one_name_end_the_start_with_an_error_about_both_sources(folder: Path) -> None:
    file = write_settings(folder, "type: python, path: first.py", "type: python, path: second.py")
    _, result = serve_requests(file, LIST)
    assert (result.code, result.out) == (2, "")
    for word in ("'plain'", "'first'", "'second'", "prefix", "alias"):
        assert word in result.err
    assert "Traceback" not in result.err


def test_a_prefix_or_an_alias_separates_two_tools_with_one_name(folder: Path) -> None:
    file = write_settings(
        folder,
        "type: python, path: first.py, include: [plain]",
        "type: python, path: second.py, prefix: p",
        "type: python, path: second.py, name: third, alias: {plain: renamed}",
    )
    (listing, first, second, third), command = serve_requests(
        file, LIST, make_call("plain"), make_call("p__plain"), make_call("renamed")
    )
    assert list_names(listing) == ["p__plain", "plain", "renamed"]
    assert [get_text(result) for result in (first, second, third)] == ["plain", "second plain", "second plain"]
    assert (command.code, command.err) == (0, "")


def test_other_sources_are_served_next_to_a_broken_one(folder: Path) -> None:
    (folder / "broken.py").write_text("\nimport nothing_of_this_name\n")
    file = write_settings(folder, "type: python, path: broken.py", "type: python, path: second.py")
    (listing, called), result = serve_requests(file, LIST, make_call("plain"))
    assert list_names(listing) == ["plain"]
    assert get_text(called) == "second plain"
    assert result.code == 0
    assert f"{folder / 'broken.py'}:2: ModuleNotFoundError" in result.err


def test_a_start_without_a_working_source_fails(folder: Path) -> None:
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    _, result = serve_requests(write_settings(folder, "type: python, path: broken.py"), LIST)
    assert (result.code, result.out) == (1, "")
    assert f"mcp-bridge: {folder / 'broken.py'}:1: ModuleNotFoundError" in result.err


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("type: unknown", "some.yaml:2: sources[0].type: unknown source type 'unknown'. Known types: amplifier, "),
        ("type: 'clocks:Nothing'", "sources[0].type: plugin 'clocks:Nothing': 'clocks' has no 'Nothing'"),
        ("type: 'no_such_module:X'", "sources[0].type: plugin 'no_such_module:X': No module named 'no_such_module'"),
        ("type: 'clocks:Clock', hour: seven", "some.yaml:2: sources[0].hour: expected a whole number, found"),
    ],
)
def test_a_type_that_cannot_be_loaded_is_an_error_with_its_line(
    folder: Path, run_here: RunHere, monkeypatch: pytest.MonkeyPatch, source: str, problem: str
) -> None:
    monkeypatch.syspath_prepend(folder)
    result = run_here("serve", write_settings(folder, source))
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


def serve_http(run_here: RunHere, folder: Path, *options: str) -> CommandResult:
    return run_here("serve", folder / "second.py", *options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--http", "nowhere"), "--http: 'nowhere' is not a port or HOST:PORT. Use --http 8808"),
        (("--http", "127.0.0.1:99999"), "http.port: cannot listen on 127.0.0.1:99999"),
        (("--http", "0.0.0.0:0"), "http.host: refusing to listen on 0.0.0.0, which others can reach, without a token"),
        (("--http", "0", "--token-env", "UNSET_X"), "--token-env: the environment variable UNSET_X is not set. Set"),
        (("--log-level", "loud"), "--log-level: unknown log level 'loud'. Use one of: debug, info"),
        (("--log-file", "no/such/folder/x.log"), "--log-file: cannot write the log to no/such/folder/x.log"),
    ],
)
def test_an_unusable_option_is_an_error_with_advice(
    run_here: RunHere, folder: Path, options: tuple[str, ...], problem: str
) -> None:
    result = serve_http(run_here, folder, *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"mcp-bridge: {problem}"), result.err


def test_an_unset_variable_of_the_settings_is_an_error_with_its_line(run_here: RunHere, folder: Path) -> None:
    (folder / "http.yaml").write_text("sources: [{type: python, path: second.py}]\nhttp: {token_env: UNSET_X}\n")
    result = run_here("serve", folder / "http.yaml", "--http", "settings")
    assert (result.code, result.out) == (2, "")
    assert "http.yaml:2: http.token_env: the environment variable UNSET_X is not set. Set UNSET_X" in result.err


def test_a_plain_file_has_the_default_address(run_here: RunHere, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 8808))
            listener.listen()
        except OSError:
            # Another program uses the port.
            pass
        result = serve_http(run_here, folder, "--http", "settings")
    assert result.code == 2
    assert "cannot listen on 127.0.0.1:8808" in result.err


def test_a_terminal_shows_that_the_server_waits_for_a_client(folder: Path) -> None:
    controller, terminal = os.openpty()
    with subprocess.Popen(
        [*COMMAND, "serve", "second.py"], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
    ) as process:
        os.close(terminal)
        assert process.stderr is not None
        assert b"Serving second.py over stdio" in process.stderr.readline()
        os.close(controller)
        process.wait(TIMEOUT)


def test_an_edited_file_is_served_again_with_reload(folder: Path) -> None:
    with start_command("serve", "second.py", "--reload", "--log-level", "debug", cwd=folder) as command:
        process = command.process
        assert process.stdout is not None
        command.send(make_call("plain"))
        assert "second plain" in process.stdout.readline()
        (folder / "second.py").write_text(SECOND.replace("second plain", "edited"))
        command.wait_for("reloaded")
        command.send(make_call("plain"))
        assert "edited" in process.stdout.readline()


LOOP_TOOL = """
import asyncio
from mcp_bridge import tool

@tool
async def loop() -> str:
    return " ".join(base.__module__ for base in type(asyncio.get_running_loop()).__mro__)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
@pytest.mark.parametrize(("setting", "expected"), [("", False), ("event_loop: uvloop\n", True)])
def test_tools_run_on_uvloop_only_where_the_settings_request_it(setting: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(LOOP_TOOL)
    settings = tmp_path / "bridge.yaml"
    settings.write_text(f"{setting}sources: [{{type: python, path: tools.py}}]\n")
    (result,), _ = serve_requests(settings, make_call("loop"))
    assert ("uvloop" in get_text(result)) == expected


def test_uvloop_that_is_requested_and_not_installed_is_an_error_at_its_line(
    run_here: RunHere, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    settings = folder / "bridge.yaml"
    settings.write_text("name: fast\nevent_loop: uvloop\nsources: [{type: python, path: first.py}]\n")
    for command in ("validate", "serve"):
        result = run_here(command, str(settings))
        assert result.code == 2
        assert "bridge.yaml:2: event_loop: uvloop is not available" in result.err
        assert "mcp-tool-bridge[uvloop]" in result.err
