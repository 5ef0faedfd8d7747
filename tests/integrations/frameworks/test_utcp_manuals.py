"""UTCP manuals as files: their tools, their problems, and commands without a shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.frameworks.discovery import convert_toolbox
from mcp_bridge._integrations.frameworks.utcp.manual import read_manual
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.frameworks.framework_clients import build_bridge, connect_to_objects, run_tool

ECHO = "import sys; print('|'.join(sys.argv[1:]))"


def write_manual(folder: Path, *tools: Any, name: str = "tools.json", **more: Any) -> Path:
    """Write the file of a manual."""
    path = folder / name
    path.write_text(json.dumps({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools, **more}))
    return path


def build_command(text: str, name: str = "run", **more: Any) -> dict[str, Any]:
    """Return a tool with a command."""
    template = {"call_template_type": "cli", "commands": [{"command": text}], **more}
    return {"name": name, "description": "Runs.", "tool_call_template": template}


def make_schema(*names: str) -> dict[str, Any]:
    """Return a schema of inputs with these names and any values."""
    return {"type": "object", "properties": {name: {} for name in names}}


def write_script(folder: Path, text: str) -> str:
    """Write a program, and return the command that runs it."""
    path = folder / "program.py"
    path.write_text(text)
    return f"{sys.executable} {path}"


async def test_a_command_gets_each_argument_as_one_word(tmp_path: Path) -> None:
    program = write_script(tmp_path, ECHO)
    tool = {
        **build_command(f'{program} --to "UTCP_ARG_to_UTCP_END" x=UTCP_ARG_n_UTCP_END UTCP_ARG_more_UTCP_END'),
        "inputs": {"properties": {"to": {"type": "string"}, "n": {"type": "integer"}, "more": {}}, "required": ["to"]},
        "tags": ["shell"],
    }
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        (tools,) = (await client.list_tools()).tools
        assert (tools.name, tools.description) == ("run", "Runs.")
        assert tools.input_schema["type"] == "object"
        assert tools.input_schema["required"] == ["to"]
        assert await run_tool(client, "run", to="a b; rm -rf $HOME", n=3) == (
            "--to|a b; rm -rf $HOME|x=3",
            False,
        )
        assert (await run_tool(client, "run", n=3))[1]


async def test_the_error_of_a_program_has_its_stderr(tmp_path: Path) -> None:
    program = write_script(tmp_path, "import sys; print('half done'); sys.exit('no such city')")
    async with connect_to_objects(read_manual(write_manual(tmp_path, build_command(program)))) as client:
        result = await client.call_tool("run", {})
    assert result.is_error
    assert result.content[0].text == "no such city"
    assert result.meta["utcp/exit_code"] == 1


async def test_json_output_of_a_program_is_structured(tmp_path: Path) -> None:
    program = write_script(tmp_path, "print('{\"height\": 3967}')")
    tool = build_command(program) | {"outputs": {"type": "object", "properties": {"height": {"type": "integer"}}}}
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        result = await client.call_tool("run", {})
    assert result.structured_content == {"height": 3967}


async def test_a_program_gets_the_variables_of_its_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "not for programs")
    monkeypatch.setenv("A_KEY", "1234")
    program = write_script(tmp_path, "import os; print(os.environ.get('A_SECRET'), os.environ.get('KEY'), os.getcwd())")
    (tmp_path / "sub").mkdir()
    tool = build_command(program, env_vars={"KEY": "${A_KEY}"}, working_dir="sub")
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        assert await run_tool(client, "run") == (f"None 1234 {tmp_path}/sub", False)
    open_one = build_command(program, inherit_env_vars=["A_SECRET"])
    async with connect_to_objects(read_manual(write_manual(tmp_path, open_one))) as client:
        assert (await run_tool(client, "run"))[0].startswith("not for programs None")


async def test_a_program_runs_in_the_folder_of_its_manual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    tool = build_command(write_script(tmp_path, "import os; print(os.getcwd())"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        assert await run_tool(client, "run") == (str(tmp_path), False)


async def test_manuals_before_version_1_are_read_too(tmp_path: Path) -> None:
    program = write_script(tmp_path, ECHO)
    old = [
        {
            "name": key,
            "inputs": make_schema("to", "loud", "quiet", "many"),
            key: {key_name: "cli", "command_name": program},
        }
        for key, key_name in (("tool_provider", "provider_type"), ("tool_transport", "transport_type"))
    ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"version": "0.1.0", "tools": old}))
    async with connect_to_objects(read_manual(path)) as client:
        arguments = {"to": "a b", "loud": True, "quiet": False, "many": [1, 2]}
        for tool in ("tool_provider", "tool_transport"):
            assert await run_tool(client, tool, **arguments) == ("--to|a b|--loud|--many|1|--many|2", False)


async def test_an_argument_that_is_not_declared_never_reaches_the_program(tmp_path: Path) -> None:
    program = write_script(tmp_path, ECHO)
    old = {
        "name": "old",
        "inputs": make_schema("to"),
        "tool_provider": {"provider_type": "cli", "command_name": program},
    }
    new = build_command(f"{program} UTCP_ARG_to_UTCP_END UTCP_ARG_output_UTCP_END") | {"inputs": make_schema("to")}
    async with connect_to_objects(read_manual(write_manual(tmp_path, old, new))) as client:
        for tool in ("old", "run"):
            text, is_error = await run_tool(client, tool, to="Bonn", output="/etc/passwd")
            assert is_error
            assert "$.output: is not declared by the tool. It takes to" in text


async def test_output_with_too_many_values_is_an_error(tmp_path: Path) -> None:
    program = write_script(tmp_path, "print('[' + '[],' * 300_000 + '0]')")
    async with connect_to_objects(read_manual(write_manual(tmp_path, build_command(program)))) as client:
        text, is_error = await run_tool(client, "run")
    assert is_error
    assert "has succeeded, but its output has more than 250000 values" in text


@pytest.mark.parametrize(
    ("template", "arguments", "output"),
    [
        ("UTCP_ARG_to_UTCP_END", {"to": "--output=x"}, None),
        ("UTCP_ARG_to_UTCP_END.txt", {"to": "-x"}, None),
        ("UTCP_ARG_a_UTCP_ENDUTCP_ARG_to_UTCP_END", {"a": "", "to": "-x"}, None),
        ("UTCP_ARG_to_UTCP_END", {"to": -1}, None),
        ("UTCP_ARG_to_UTCP_END", {"to": 1}, "1"),
        ("-- UTCP_ARG_to_UTCP_END", {"to": "-x"}, "--|-x"),
        ("UTCP_ARG_a_UTCP_END UTCP_ARG_to_UTCP_END", {"a": "--", "to": "-x"}, None),
        ("--to=UTCP_ARG_to_UTCP_END", {"to": "-x"}, "--to=-x"),
        ("-nUTCP_ARG_to_UTCP_END", {"to": -1}, "-n-1"),
    ],
)
async def test_a_value_cannot_become_an_option(
    tmp_path: Path, template: str, arguments: dict[str, Any], output: str | None
) -> None:
    tool = build_command(f"{write_script(tmp_path, ECHO)} {template}") | {"inputs": make_schema("a", "to")}
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        text, is_error = await run_tool(client, "run", **arguments)
    assert is_error is (output is None)
    assert text == output or "the value begins with '-', so the program would read it as an option" in text


async def test_an_option_of_an_old_manual_may_have_a_value_that_begins_with_a_dash(tmp_path: Path) -> None:
    program = write_script(tmp_path, ECHO)
    old = {"name": "old", "inputs": make_schema("n", "to"), "tool_provider": {"type": "cli", "command_name": program}}
    async with connect_to_objects(read_manual(write_manual(tmp_path, old))) as client:
        assert await run_tool(client, "old", n=-1, to=["--output", "x"]) == (
            "--n=-1|--to=--output|--to|x",
            False,
        )


async def test_a_call_that_is_cancelled_ends_the_program(tmp_path: Path) -> None:
    has_begun, has_ended = anyio.Event(), anyio.Event()

    async def follow(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            has_begun.set()
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
            has_ended.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    place = ("127.0.0.1", listener.extra(SocketAttribute.local_port))
    text = f"import socket, time; line = socket.create_connection({place}); line.send(b'x'); time.sleep(600)"
    manual = read_manual(write_manual(tmp_path, build_command(write_script(tmp_path, text))))
    async with listener, anyio.create_task_group() as watching, connect_to_objects(manual) as client:
        watching.start_soon(listener.serve, follow)
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "run", {})
                await has_begun.wait()
                calls.cancel_scope.cancel()
            await has_ended.wait()
        watching.cancel_scope.cancel()


async def test_a_manual_may_be_yaml_or_a_mapping(tmp_path: Path) -> None:
    program = write_script(tmp_path, ECHO)
    path = tmp_path / "tools.yaml"
    path.write_text(
        "utcp_version: 1.0.1\ntools:\n  - name: run\n    tool_call_template:\n"
        f"      call_template_type: cli\n      commands: [{{command: '{program} yes'}}]\n"
    )
    async with connect_to_objects(read_manual(path)) as client:
        assert await run_tool(client, "run") == ("yes", False)
    async with connect_to_objects({"utcp_version": "1.0.1", "tools": [build_command(f"{program} no")]}) as client:
        assert await run_tool(client, "run") == ("no", False)


async def test_a_broken_tool_of_a_manual_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    tools = [
        build_command(write_script(tmp_path, ECHO)),
        {"description": "nameless"},
        {"name": "uncallable"},
        {"name": "untyped", "tool_call_template": {"url": "https://example.org"}},
        {"name": "odd", "inputs": [], "tool_call_template": {"call_template_type": "cli"}},
        {"name": "strange", "tool_call_template": {"call_template_type": "webrtc"}},
        {"name": "plain", "tool_call_template": {"call_template_type": "http", "url": "http://example.org"}},
        {"name": "port", "tool_call_template": {"call_template_type": "http", "url": "http://localhost:{port}/x"}},
        {"name": "keyed", "tool_call_template": {"call_template_type": "http", "url": "https://x.org/${NOT_SET}"}},
    ]
    path = write_manual(tmp_path, *tools)
    bridge = build_bridge(read_manual(path))
    async with connect(bridge) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["port", "run"]
    problems = "\n".join(bridge.problems["objects"])
    for words in (
        "tools[1].name: a tool needs a name",
        "the tool 'uncallable' has no tool_call_template",
        "tools[3].tool_call_template.call_template_type: a call template needs a type",
        "tools[4].inputs: expected a JSON Schema",
        "the UTCP tool 'strange': calls of type 'webrtc' are not supported",
        "the UTCP tool 'plain': its url must begin with https://",
        "the UTCP tool 'keyed': the variable ${NOT_SET} is not set. Set NOT_SET, or tools_NOT_SET",
    ):
        assert words in problems
    assert str(path) in problems


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line"),
        ("[]", "expected a mapping"),
        ('{"utcp_version": "1.0.1"}', "has a list 'tools'"),
        ('{"tools": {}}', "tools: expected a list"),
    ],
)
def test_a_file_without_a_manual_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "manual.json"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        read_manual(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value) or words == "line"


async def test_a_missing_package_of_utcp_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "utcp.plugins.plugin_loader", None)
    template = {"call_template_type": "http", "url": "https://example.org"}
    bridge = build_bridge({"utcp_version": "1.0.1", "tools": [{"name": "ask", "tool_call_template": template}]})
    async with connect(bridge):
        (problem,) = bridge.problems["objects"]
    assert "the UTCP tool 'ask': it needs the packages utcp and utcp-http. Run: pip install" in problem


async def test_a_missing_program_is_unavailable() -> None:
    template = {"provider_type": "cli", "command_name": "no-such-program-anywhere"}
    tool = {"name": "run", "tool_provider": template}
    async with connect_to_objects({"utcp_version": "0.1.0", "tools": [tool]}) as client:
        text, is_error = await run_tool(client, "run")
    assert is_error
    assert "The program 'no-such-program-anywhere' cannot be started" in text


def test_other_objects_are_no_manuals() -> None:
    class Answering:
        def __getattr__(self, name: str) -> str:
            return name

    assert not any(convert_toolbox(value) for value in (Answering(), len, {}, {"tools": []}, None))


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (build_command("no-such-program --now"), "there is no program 'no-such-program' on PATH"),
        ({"name": "run", "tool_call_template": {"call_template_type": "cli", "commands": []}}, "has no commands"),
    ],
)
async def test_a_command_that_cannot_run_is_a_problem(tool: dict[str, Any], words: str, tmp_path: Path) -> None:
    box = convert_toolbox(read_manual(write_manual(tmp_path, tool)))
    assert list(await box.list_entries()) == []
    assert words in str(getattr(box, "problems", ()))


async def test_a_null_character_in_an_argument_is_rejected(tmp_path: Path) -> None:
    tool = {**build_command(f"{write_script(tmp_path, ECHO)} UTCP_ARG_x_UTCP_END"), "inputs": {"properties": {"x": {}}}}
    async with connect_to_objects(read_manual(write_manual(tmp_path, tool))) as client:
        text, is_error = await run_tool(client, "run", x="a\0b")
        assert is_error
        assert "null characters" in text
