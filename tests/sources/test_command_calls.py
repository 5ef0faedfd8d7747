"""Calls of commands, which are real programs: their input, and the results made of their output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kits.commands.command_kit import Json, build_bridge, connect_commands, write_tool
from tests.kits.wire.speaking import call, dump_json, get_text

TEXT = {"text": "string"}


async def call_one(folder: Path, tool: Json, arguments: Json | None = None, /, **options: Any) -> Json:
    async with connect_commands(folder, {"t": tool}, **options) as client:
        return await call(client, "t", **(arguments or {}))


async def report(folder: Path, tool: Json, arguments: Json | None = None, /, **options: Any) -> Json:
    """Call a command that reports its input."""
    result = await call_one(folder, tool, arguments, **options)
    assert not result["isError"], get_text(result)
    report_of_program: Json = json.loads(get_text(result))
    return report_of_program


async def test_no_shell_interprets_a_value(tmp_path: Path) -> None:
    text = "a'b\"c $(id) `id` ; | & > x * ~ \\ \n ü 🍐"
    tool = write_tool("report", "{text}", ["--n={text}"], parameters=TEXT)
    assert (await report(tmp_path, tool, {"text": text}))["argv"] == [text, f"--n={text}"]


async def test_a_value_beginning_with_a_dash_is_accepted_if_the_enum_lists_it(tmp_path: Path) -> None:
    order = {"type": "array", "items": {"enum": ["-r", "-n"]}}
    tool: Json = {"command": ["echo", "{flag}{rest}", "{order}"]}
    tool["parameters"] = {"flag": {"enum": ["", "-b"]}, "rest": "string", "order": order}
    result = await call_one(tmp_path, tool, {"flag": "-b", "rest": "", "order": ["-r", "-n"]})
    assert get_text(result) == "-b -r -n"
    for option in ("-x", "-bx"):
        result = await call_one(tmp_path, tool, {"flag": "", "rest": option, "order": ["-r"]})
        assert "$.flag: the value begins with '-'" in get_text(result)


async def test_defaults_of_parameters_are_used(tmp_path: Path) -> None:
    tool = write_tool("report", "{n}", parameters={"n": {"type": "integer", "default": 5}})
    assert (await report(tmp_path, tool))["argv"] == ["5"]


async def test_arguments_are_validated_first(tmp_path: Path) -> None:
    tool = write_tool("report", "{text}", parameters=TEXT)
    assert "$.text: required field missing" in get_text(await call_one(tmp_path, tool))
    result = await call_one(tmp_path, tool, {"text": "-x"})
    assert result["isError"]
    assert "$.text: the value begins with '-'" in get_text(result)
    assert "$.txt" in get_text(await call_one(tmp_path, tool, {"text": "x", "txt": "y"}))


async def test_arguments_that_are_too_long_for_the_system_are_an_error(tmp_path: Path) -> None:
    result = await call_one(tmp_path, write_tool("report", "{text}", parameters=TEXT), {"text": "x" * 2_000_000})
    assert get_text(result) == "The arguments are longer than the system allows. Pass less text."


# Environment and folders


async def test_the_environment_has_the_usual_variables_and_the_named_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_SECRET", "hidden from programs")
    monkeypatch.setenv("API_TOKEN", "a token that must not be seen")
    env = {"PLAIN": "value", "TOKEN": "env:API_TOKEN"}
    tool = write_tool("report", output="json")
    result = await call_one(tmp_path, tool, env=env)
    environment = result["structuredContent"]["env"]
    assert environment["PLAIN"] == "value"
    # The program has the real value, and the client sees only this text.
    assert environment["TOKEN"] == "[secret]"
    assert {"PATH", "HOME"} <= environment.keys()
    assert "SERVER_SECRET" not in environment
    assert "a token" not in json.dumps(result)


async def test_a_credential_that_is_missing_is_a_problem_of_the_source(tmp_path: Path) -> None:
    bridge = build_bridge(tmp_path, {"t": {"command": "echo"}}, env={"TOKEN": "env:NO_SUCH_VARIABLE"})
    async with bridge.run_sources():
        with pytest.raises(Exception, match=r"env\.TOKEN: the environment variable NO_SUCH_VARIABLE is not set"):
            await bridge.wait_until_started()


async def test_a_command_runs_in_a_folder_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "data" / "inner").mkdir(parents=True)
    parameters = {"folder": {"type": "string", "default": "."}}
    tool = write_tool("report", cwd="{folder}", parameters=parameters)
    assert (await report(tmp_path, tool, root="data"))["cwd"] == str(tmp_path / "data")
    assert (await report(tmp_path, tool, {"folder": "inner"}, root="data"))["cwd"] == str(tmp_path / "data" / "inner")
    result = await call_one(tmp_path, tool, {"folder": "none"}, root="data")
    assert "the working directory does not exist" in get_text(result)


@pytest.mark.parametrize("path", ["..", "inner/../..", "/etc", "link", "link/passwd", "inner/up", "deep/../.."])
async def test_no_path_leads_out_of_the_root(tmp_path: Path, path: str) -> None:
    root = tmp_path / "data"
    (root / "inner").mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    (root / "inner" / "up").symlink_to("../..")
    (root / "inner" / "inner").mkdir()
    (root / "deep").symlink_to("inner/inner")
    folder = write_tool("report", cwd="{p}", parameters={"p": "string"})
    file = write_tool("report", "{p}", parameters={"p": "path"})
    files = write_tool("report", "{p}", parameters={"p": "path[]"})
    async with connect_commands(tmp_path, {"folder": folder, "file": file, "files": files}, root="data") as client:
        for name, value in (("folder", path), ("file", path), ("files", ["inner", path])):
            result = await call(client, name, p=value)
            assert result["isError"]
            assert "this path leads out of the folder that the tool works in" in get_text(result)


async def test_a_path_that_contains_the_separator_of_its_list_is_rejected(tmp_path: Path) -> None:
    words_tool = write_tool("report", "--in={p:,}", parameters={"p": "path[]"})
    input_tool = write_tool("report", stdin="{p:\n}", parameters={"p": "path[]"})
    async with connect_commands(tmp_path, {"words": words_tool, "input": input_tool}) as client:
        assert json.loads(get_text(await call(client, "words", p=["a", "b"])))["argv"] == ["--in=a,b"]
        for name, path in (("words", "a,../../etc/passwd"), ("input", "a\n../../etc/passwd")):
            result = await call(client, name, p=[path])
            assert "$.p: this path has a text that separates paths" in get_text(result)


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/id",
        "~root",
        "file:/etc/passwd",
        "https://example.com/",
        "concat:a|b",
        ":/",
        ":(top)x",
        "@/etc/passwd",
        "|id",
        ">x",
        "<x",
    ],
)
async def test_a_path_is_not_an_address_or_a_home_folder_for_the_program(tmp_path: Path, path: str) -> None:
    tool = write_tool("report", "{p}", parameters={"p": "path"})
    assert "$.p: many programs do not read this as a path" in get_text(await call_one(tmp_path, tool, {"p": path}))
    assert (await report(tmp_path, tool, {"p": f"./{path}"}))["argv"] == [f"./{path}"]


@pytest.mark.parametrize("word", ["./{p}", "--in=./{p}"])
async def test_a_template_can_make_a_path_of_every_value(tmp_path: Path, word: str) -> None:
    tool = write_tool("report", word, parameters={"p": "path"})
    for path in (":(top)x", "@types", "~", "-x", "a/b"):
        assert (await report(tmp_path, tool, {"p": path}))["argv"] == [word.replace("{p}", path)]
    for path in ("../x", "a/../../x"):
        assert "leads out of the folder" in get_text(await call_one(tmp_path, tool, {"p": path}))


async def test_a_path_that_a_command_also_uses_without_a_dot_is_checked_like_any_other(tmp_path: Path) -> None:
    tool = write_tool("report", "./{p}", "{p}", parameters={"p": "path"})
    assert "$.p: many programs do not read this as a path" in get_text(await call_one(tmp_path, tool, {"p": "@x"}))


async def test_a_path_in_the_root_is_passed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tool = write_tool("report", ["{files}"], parameters={"files": "path[]"}, cwd="a")
    assert (await report(tmp_path, tool, {"files": ["../b", "new/file", "."]}))["argv"] == ["../b", "new/file", "."]
    tool = write_tool("report", "type=bind,src={p},dst=/data", parameters={"p": "path"})
    assert (await report(tmp_path, tool, {"p": "b"}))["argv"] == ["type=bind,src=b,dst=/data"]


# Input


async def test_standard_input_is_a_template(tmp_path: Path) -> None:
    tool = write_tool("report", stdin="Dear {name},\n{body}", parameters={"name": "string", "body": "object"})
    report_of_program = await report(tmp_path, tool, {"name": "Ada", "body": {"a": 1}})
    assert report_of_program["stdin"] == 'Dear Ada,\n{"a":1}'
    assert (await report(tmp_path, write_tool("report")))["stdin"] == ""


async def test_a_program_may_ignore_its_input(tmp_path: Path) -> None:
    tool = write_tool("ignore", stdin="{text}", parameters=TEXT)
    assert get_text(await call_one(tmp_path, tool, {"text": "x" * 3_000_000})) == "not reading"


# Output


async def test_json_is_structured_content_and_checked_by_its_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = write_tool("print", "{text}", parameters=TEXT, output="json", output_schema=schema)
    async with connect_commands(tmp_path, {"t": tool}) as client:
        assert (await call(client, "t", text='{"a": 1}'))["structuredContent"] == {"a": 1}
        assert "Output validation failed" in get_text(await call(client, "t", text='{"a": "b"}'))
        assert "its output is not JSON: it has NaN" in get_text(await call(client, "t", text='{"a": NaN}'))
        result = await call(client, "t", text="no json")
        assert result["isError"]
        assert get_text(result) == (
            "The program 'python' has succeeded, but its output is not JSON: Expecting value: line 1 column 1 (char 0)"
            ". It begins with: no json"
        )


async def test_the_input_of_a_program_does_not_multiply_without_limit(tmp_path: Path) -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    tool = write_tool("report", parameters={"a": texts, "b": texts}, stdin="{a}{b}")
    result = await call_one(tmp_path, tool, {"a": ["x"] * 5_000, "b": ["y"] * 5_000})
    assert result["isError"]
    assert "Pass shorter lists: a, b" in get_text(result)


@pytest.mark.parametrize("case", ["json", "json_lines"])
async def test_json_with_too_many_values_is_not_parsed(case: str, tmp_path: Path) -> None:
    tool = {"command": [sys.executable, "-c", "print('[' + '{},' * 300_000 + '0]')"], "output": case}
    result = await call_one(tmp_path, tool)
    assert result["isError"]
    assert "more than 250000 values" in get_text(result)


async def test_json_lines_are_a_list(tmp_path: Path) -> None:
    tool = write_tool("print", '{"a": 1}\\r\\n\\n["\u2028\u0085"]\\n', output="json_lines")
    assert json.loads(get_text(await call_one(tmp_path, tool))) == [{"a": 1}, ["\u2028\u0085"]]


async def test_binary_output_and_files_are_content_of_their_types(tmp_path: Path) -> None:
    image = write_tool("print", "\\x89PNG", output="image/png")
    text = write_tool("print", "a,b", output="text/csv")
    blob = write_tool("print", "\\xff", output="application/x-thing")
    file = write_tool("write", "{name}", parameters={"name": "string"}, files=["chart.png"])
    async with connect_commands(tmp_path, {"image": image, "text": text, "blob": blob, "file": file}) as client:
        (block,) = (await call(client, "image"))["content"]
        assert (block["type"], block["mimeType"], block["data"]) == ("image", "image/png", "iVBORw==")
        (block,) = (await call(client, "text"))["content"]
        assert block["resource"] == {"uri": "command://python/output", "mimeType": "text/csv", "text": "a,b"}
        (block,) = (await call(client, "blob"))["content"]
        assert block["resource"]["blob"] == "/w=="
        (block,) = (await call(client, "file", name="chart.png"))["content"]
        assert (block["type"], block["mimeType"]) == ("image", "image/png")
        (tmp_path / "chart.png").unlink()
        result = await call(client, "file", name="other.png")
        assert get_text(result).endswith("has succeeded, but its file cannot be read: chart.png does not exist")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("link", "link leads out of the folder that the tool works in"), ("big", "big is larger than the limit")],
)
async def test_a_file_of_a_result_is_in_the_root_and_within_the_limit(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "big").write_bytes(b"x" * (16 * 1024 * 1024 + 1))
    result = await call_one(tmp_path, write_tool("ignore", files=[name]))
    assert result["isError"]
    assert problem in get_text(result)


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    assert get_text(await call_one(tmp_path, write_tool("print", "a\\xff\\xfeb\\n"))) == "a\ufffd\ufffdb"


@pytest.mark.parametrize("stderr", ["error", "output"])
async def test_stderr_is_a_part_of_the_output_with_this_setting(tmp_path: Path, stderr: str) -> None:
    result = await call_one(tmp_path, write_tool("exit", 0, stderr=stderr))
    assert sorted(get_text(result).splitlines()) == sorted(
        ["some output"] + (["a problem"] if stderr == "output" else [])
    )


# Failures


async def test_another_exit_code_than_success_is_an_error_with_the_output(tmp_path: Path) -> None:
    result = await call_one(tmp_path, write_tool("exit", 3))
    assert result["isError"]
    assert get_text(result) == "The program 'python' ended with exit code 3.\na problem\nsome output"
    assert result["_meta"]["mcp-bridge/exit_code"] == 3
    assert result["_meta"]["mcp-bridge/code"] == "command_failed"


async def test_the_settings_define_successful_exit_codes_and_errors_of_others(tmp_path: Path) -> None:
    tool = write_tool("exit", "{n}", parameters={"n": "integer"}, exit_codes=[0, 1], errors={"2": "Nothing matches."})
    async with connect_commands(tmp_path, {"t": tool}) as client:
        assert get_text(await call(client, "t", n=1)) == "some output"
        result = await call(client, "t", n=2)
        assert (result["isError"], get_text(result)) == (True, "Nothing matches.")


async def test_a_program_that_a_signal_has_ended_is_an_error(tmp_path: Path) -> None:
    assert (
        get_text(await call_one(tmp_path, write_tool("killed")))
        == "The program 'python' ended with signal 9 (SIGKILL)."
    )


async def test_a_program_that_is_missing_or_not_executable_is_reported(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo hi")
    tools = {"a": {"command": "no-such-program"}, "b": {"command": "./script"}, "c": {"command": "echo hi"}}
    bridge = build_bridge(tmp_path, tools)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert bridge.registry.list_names() == ["c"]
    assert bridge.problems["commands"] == [
        "tool 'a' is not published: the program 'no-such-program' was not found. Install it, or give its full path",
        "tool 'b' is not published: the program './script' is not executable. Run chmod +x",
    ]


async def test_a_program_that_the_system_cannot_execute_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "script").write_bytes(b"\x7fELF\0")
    (tmp_path / "script").chmod(0o755)
    result = await call_one(tmp_path, {"command": "./script"})
    assert get_text(result) == "The program 'script' could not be executed (exit code 127)."


async def test_a_folder_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    bridge = build_bridge(tmp_path, {"t": {"command": "echo"}}, root="none")
    async with bridge.run_sources():
        with pytest.raises(Exception, match="none' does not exist"):
            await bridge.wait_until_started()


# Streaming


async def test_lines_are_progress_while_the_program_runs(tmp_path: Path) -> None:
    messages: list[tuple[float, str | None]] = []

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        messages.append((progress, message))

    async with connect_commands(tmp_path, {"t": write_tool("steps", stream="progress")}) as client:
        result = dump_json(await client.call_tool("t", {}, progress_callback=receive))
    assert get_text(result) == "step 0\nstep 1\nstep 2"
    assert [number for number, _ in messages] == [1, 2, 3, 4]
    assert sorted(str(message) for _, message in messages) == ["done", "step 0", "step 1", "step 2"]


async def test_lines_are_log_messages_and_json_is_not_among_them(tmp_path: Path) -> None:
    messages: list[Any] = []

    async def receive(params: Any) -> None:
        messages.append((params.level, params.data))

    tools = {"t": write_tool("steps", stream="log"), "j": write_tool("exit", 0, output="application/x", stream="log")}
    async with connect_commands(tmp_path, tools, client={"mode": "legacy", "logging_callback": receive}) as client:
        await call(client, "t")
        assert sorted(messages) == [("info", "done"), ("info", "step 0"), ("info", "step 1"), ("info", "step 2")]
        messages.clear()
        await call(client, "j")
        assert messages == [("info", "a problem")]


async def test_a_command_in_a_worker_works_too(tmp_path: Path) -> None:
    assert get_text(await call_one(tmp_path, write_tool("exit", 0), isolation="process")) == "some output"
