"""`call`: only the result is on stdout; failures, prints and progress are on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.kits.cli.cli_running import COMMAND, TOOLS, RunHere, run
from tests.kits.constants import TIMEOUT

CALL = ("call", "-f", TOOLS)


@pytest.mark.parametrize(
    ("pair", "key", "expected"),
    [
        ("text=hello there", "text", "hello there"),
        ("text=5", "text", "5"),
        ("text=a=b", "text", "a=b"),
        ("number=1.5", "number", 1.5),
        ("flag=true", "flag", True),
        ('thing={"a": null}', "thing", {"a": None}),
        ("thing=not JSON", "thing", "not JSON"),
    ],
)
def test_key_and_value_give_every_type_of_json(run_here: RunHere, pair: str, key: str, expected: Any) -> None:
    result = run_here(*CALL, "echo", pair)
    assert (result.code, result.err) == (0, "")
    assert result.json[key] == expected


def test_arguments_can_be_json(run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_here(*CALL, "echo", "--arguments", '{"text": "x"}').json["text"] == "x"
    monkeypatch.setattr(sys, "stdin", StringIO('{"number": 7}'))
    assert run_here(*CALL, "echo", "--arguments", "-").json["number"] == 7


def test_one_json_object_has_all_arguments(run_here: RunHere) -> None:
    report = run_here(*CALL, "echo", "--json", '{"text": "x=y", "number": 2}').json
    assert (report["output"]["text"], report["output"]["number"]) == ("x=y", 2)


def test_arguments_are_read_from_stdin_and_may_be_an_empty_object(tmp_path: Path) -> None:
    assert run(*CALL, "echo", "--arguments", "-", cwd=tmp_path, stdin='{"text": "ü"}').json["text"] == "ü"
    assert run(*CALL, "echo", "--arguments", "{}", cwd=tmp_path).json["text"] == ""


@pytest.mark.parametrize(
    ("words", "where", "problem", "advice"),
    [
        (["text"], "arguments: ", "'text' is not key=value", "Use key=value"),
        (["--arguments", "{a"], "--arguments: ", "invalid JSON", "read stdin"),
        (
            ["text=x", "--arguments", "{}"],
            "arguments: ",
            "both --arguments and 'text=x' were given",
            "or --arguments with one JSON object",
        ),
    ],
)
def test_arguments_that_cannot_be_read_are_a_usage_error(
    run_here: RunHere, words: list[str], where: str, problem: str, advice: str
) -> None:
    result = run_here(*CALL, "echo", *words)
    assert (result.code, result.out) == (2, "")
    for text in (where, problem, advice):
        assert text in result.err


def test_invalid_arguments_are_a_failure(run_here: RunHere) -> None:
    result = run_here(*CALL, "echo", "number=x", "flag=1")
    assert (result.code, result.out) == (1, "")
    assert "- $.number: expected type number, got str" in result.err
    assert "- $.flag: expected type boolean, got int" in result.err
    assert run_here(*CALL, "echo", "--arguments", "[1]").code == 1


def test_an_error_of_a_tool_is_its_text_on_stderr(run_here: RunHere) -> None:
    result = run_here(*CALL, "refuses")
    assert (result.code, result.out, result.err) == (1, "", "there is no such place\n")


def test_an_unexpected_error_is_a_reference_and_its_traceback_in_the_log(run_here: RunHere) -> None:
    result = run_here(*CALL, "breaks", "text=xyz")
    assert (result.code, result.out) == (1, "")
    *log, answer = result.err.splitlines()
    reference = answer.rpartition("reference ")[2].strip(").")
    assert f"reference {reference}" in log[0]
    assert log[-1] == "  ValueError: broken xyz"
    assert "broken" not in answer


def test_json_has_the_keys_of_a_success_and_of_a_failure(run_here: RunHere) -> None:
    good = run_here(*CALL, "echo", "text=x", "--json").json
    assert good.keys() == {"ok", "output", "duration_ms"}
    assert good["ok"] is True
    assert good["output"]["text"] == "x"
    assert good["duration_ms"] >= 0
    failure = run_here(*CALL, "refuses", "--json")
    assert failure.code == 1
    assert failure.err == ""
    assert failure.json.keys() == {"ok", "output", "error", "code", "duration_ms"}
    assert failure.json["ok"] is False
    assert failure.json["error"] == "there is no such place"
    assert failure.json["code"] == "no_such_place"


def test_content_is_printed_block_by_block(run_here: RunHere) -> None:
    first, second = run_here(*CALL, "blocks_given").out.splitlines()
    assert first == "hello"
    assert json.loads(second) == {"type": "image", "data": "MTI=", "mimeType": "image/png"}
    row = run_here(*CALL, "blocks_given", "--json").json
    assert [block["type"] for block in row["content"]] == ["text", "image"]


def test_structured_content_without_blocks_is_printed(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp.types import CallToolResult\n"
        "from mcp_bridge import tool\n\n"
        "@tool\n"
        "def count() -> CallToolResult:\n"
        "    return CallToolResult(content=[], structuredContent={'n': 2**70})\n"
    )
    result = run_here("call", "tools.py", "count")
    assert (result.code, result.json) == (0, {"n": 2**70})


def test_a_result_of_none_prints_nothing(run_here: RunHere) -> None:
    result = run_here(*CALL, "nothing")
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_unknown_tool_names_the_nearest_one(run_here: RunHere, options: list[str]) -> None:
    result = run_here(*CALL, "ecko", *options)
    assert (result.code, result.out) == (3, "")
    assert result.err == "mcp-bridge: Unknown tool: ecko. Did you mean 'echo'?\n"


def test_prints_never_reach_stdout(tmp_path: Path) -> None:
    source = tmp_path / "tools.py"
    source.write_text(f'print("printed at import")\n{TOOLS.read_text()}')
    result = run("call", "loud", cwd=tmp_path)
    assert (result.code, result.out) == (0, "answer\n")
    for words in ("printed at import", "printed by the tool", "written by the tool"):
        assert words in result.err


def test_log_messages_are_a_line_each_and_questions_need_a_client(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import CallContext, tool\n"
        "@tool\n"
        "async def who(ctx: CallContext) -> str:\n"
        "    await ctx.log('warning', {'a': '\\x1b[31m'})\n"
        "    return (await ctx.ask('Who?', str)).data\n"
    )
    result = run("call", "who", cwd=tmp_path)
    assert (result.code, result.out) == (1, "")
    warning, error = result.err.splitlines()
    assert warning == r'warning: {"a":"\u001b[31m"}'
    assert "cannot be asked" in error
    assert "elicitation" in error


def test_progress_is_lines_if_stderr_is_no_terminal(tmp_path: Path) -> None:
    result = run(*CALL, "steps", "message=\x1b[31m[/red]", cwd=tmp_path)
    assert result.out == "done\n"
    lines = result.err.splitlines()
    assert lines == [*(rf"\x1b[31m[/red] {number} ({number}/3)" for number in (1, 2, 3)), "progress (4)"]


def test_progress_is_a_bar_on_a_terminal(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    arguments = ["call", "-f", str(TOOLS), "steps", "pause=0.2", "message=[/odd] \x1b[31mmarkup"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=terminal, env=environ) as process:
        os.close(terminal)
        drawn = b""
        # Linux raises OSError if the other end is closed.
        with contextlib.suppress(OSError):
            while data := os.read(controller, 4096):
                drawn += data
        os.close(controller)
        assert process.wait(TIMEOUT) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"
    output = drawn.decode()
    assert "━" in output
    assert "33%" in output
    assert r"[/odd] \x1b[31mmarkup 1" in output


def test_a_broken_source_is_reported_and_the_call_fails(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def f(:\n")
    result = run_here("call", "x")
    assert (result.code, result.out) == (1, "")
    assert f"{tmp_path / 'tools.py'}:1: SyntaxError" in result.err


TYPED = """
from typing import Literal
from mcp_bridge import tool

@tool
def typed(
    text: str = "", note: str | None = None, either: int | str = 0, tags: list[str] | None = None,
    numbers: list[int] = [], where: dict[str, int] | None = None, unit: Literal["1", "2"] = "1",
) -> dict:
    return {"given": [text, note, either, tags, numbers, where, unit]}
"""


@pytest.mark.parametrize(
    ("pairs", "position", "expected"),
    [
        (["note=5"], 1, "5"),
        (["note=null"], 1, None),
        (["either=5"], 2, 5),
        (["either=true"], 2, "true"),
        (["tags=a"], 3, ["a"]),
        (["tags=a", "tags=2"], 3, ["a", "2"]),
        (['tags=["a", "b"]'], 3, ["a", "b"]),
        (["numbers=1", "numbers=2"], 4, [1, 2]),
        (['where={"a": 1}'], 5, {"a": 1}),
        (['where:={"a": 1}'], 5, {"a": 1}),
        (['text:="a"'], 0, "a"),
        (["unit=2"], 6, "2"),
    ],
)
def test_pairs_are_read_by_the_schema_of_the_tool(
    run_here: RunHere, tmp_path: Path, pairs: list[str], position: int, expected: Any
) -> None:
    (tmp_path / "tools.py").write_text(TYPED)
    result = run_here("call", "typed", *pairs)
    assert (result.code, result.err) == (0, "")
    assert result.json["given"][position] == expected


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [(["text=a", "text=b"], "'text' is given twice"), (["where:={a}"], "'where:={a}' has invalid JSON")],
)
def test_pairs_that_cannot_be_read_are_a_usage_error(
    run_here: RunHere, tmp_path: Path, pairs: list[str], problem: str
) -> None:
    (tmp_path / "tools.py").write_text(TYPED)
    result = run_here("call", "typed", *pairs)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
