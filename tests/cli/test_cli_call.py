"""`call`: the answer on stdout and nothing else; failures, prints and progress on stderr."""

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

from tests.kits.cli.cli_running import COMMAND, TOOLS, Inside, run
from tests.kits.constants import TIMEOUT

CALL = ("call", "-f", TOOLS)


@pytest.mark.parametrize(
    ("given", "key", "expected"),
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
def test_key_and_value_give_every_type_of_json(inside: Inside, given: str, key: str, expected: Any) -> None:
    done = inside(*CALL, "echo", given)
    assert (done.code, done.err) == (0, "")
    assert done.json[key] == expected


def test_arguments_are_given_as_json(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inside(*CALL, "echo", "--arguments", '{"text": "x"}').json["text"] == "x"
    monkeypatch.setattr(sys, "stdin", StringIO('{"number": 7}'))
    assert inside(*CALL, "echo", "--arguments", "-").json["number"] == 7


def test_one_json_object_stands_for_all_arguments_beside_json_output(inside: Inside) -> None:
    report = inside(*CALL, "echo", "--json", '{"text": "x=y", "number": 2}').json
    assert (report["output"]["text"], report["output"]["number"]) == ("x=y", 2)


def test_standard_input_gives_arguments_and_an_empty_object_is_no_absence(tmp_path: Path) -> None:
    assert run(*CALL, "echo", "--arguments", "-", cwd=tmp_path, stdin='{"text": "ü"}').json["text"] == "ü"
    assert run(*CALL, "echo", "--arguments", "{}", cwd=tmp_path).json["text"] == ""


@pytest.mark.parametrize(
    ("given", "where", "found", "advice"),
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
    inside: Inside, given: list[str], where: str, found: str, advice: str
) -> None:
    done = inside(*CALL, "echo", *given)
    assert (done.code, done.out) == (2, "")
    for part in (where, found, advice):
        assert part in done.err


def test_arguments_that_do_not_fit_are_a_failure(inside: Inside) -> None:
    done = inside(*CALL, "echo", "number=x", "flag=1")
    assert (done.code, done.out) == (1, "")
    assert "- $.number: expected type number, got str" in done.err
    assert "- $.flag: expected type boolean, got int" in done.err
    assert inside(*CALL, "echo", "--arguments", "[1]").code == 1


def test_a_refusal_is_its_own_text_on_stderr(inside: Inside) -> None:
    done = inside(*CALL, "refuses")
    assert (done.code, done.out, done.err) == (1, "", "there is no such place\n")


def test_an_unexpected_error_is_a_reference_and_its_traceback_in_the_log(inside: Inside) -> None:
    done = inside(*CALL, "breaks", "text=xyz")
    assert (done.code, done.out) == (1, "")
    *log, answer = done.err.splitlines()
    reference = answer.rpartition("reference ")[2].strip(").")
    assert f"reference {reference}" in log[0]
    assert log[-1] == "  ValueError: broken xyz"
    assert "broken" not in answer


def test_json_of_a_success_and_of_a_failure(inside: Inside) -> None:
    good = inside(*CALL, "echo", "text=x", "--json").json
    assert good.keys() == {"ok", "output", "duration_ms"}
    assert good["ok"] is True
    assert good["output"]["text"] == "x"
    assert good["duration_ms"] >= 0
    failed = inside(*CALL, "refuses", "--json")
    assert failed.code == 1
    assert failed.err == ""
    assert failed.json.keys() == {"ok", "output", "error", "code", "duration_ms"}
    assert failed.json["ok"] is False
    assert failed.json["error"] == "there is no such place"
    assert failed.json["code"] == "no_such_place"


def test_content_is_printed_block_by_block(inside: Inside) -> None:
    first, second = inside(*CALL, "blocks_given").out.splitlines()
    assert first == "hello"
    assert json.loads(second) == {"type": "image", "data": "MTI=", "mimeType": "image/png"}
    shown = inside(*CALL, "blocks_given", "--json").json
    assert [block["type"] for block in shown["content"]] == ["text", "image"]


def test_structured_content_without_blocks_is_printed(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp.types import CallToolResult\n"
        "from mcp_bridge import tool\n\n"
        "@tool\n"
        "def count() -> CallToolResult:\n"
        "    return CallToolResult(content=[], structuredContent={'n': 2**70})\n"
    )
    done = inside("call", "tools.py", "count")
    assert (done.code, done.json) == (0, {"n": 2**70})


def test_no_answer_prints_nothing(inside: Inside) -> None:
    done = inside(*CALL, "nothing")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_unknown_tool_names_the_nearest_one(inside: Inside, options: list[str]) -> None:
    done = inside(*CALL, "ecko", *options)
    assert (done.code, done.out) == (3, "")
    assert done.err == "mcp-bridge: Unknown tool: ecko. Did you mean 'echo'?\n"


def test_prints_never_reach_stdout(tmp_path: Path) -> None:
    source = tmp_path / "tools.py"
    source.write_text(f'print("printed at import")\n{TOOLS.read_text()}')
    done = run("call", "loud", cwd=tmp_path)
    assert (done.code, done.out) == (0, "answer\n")
    for words in ("printed at import", "printed by the tool", "written by the tool"):
        assert words in done.err


def test_log_messages_are_a_line_each_and_questions_need_a_client(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import CallContext, tool\n"
        "@tool\n"
        "async def who(ctx: CallContext) -> str:\n"
        "    await ctx.log('warning', {'a': '\\x1b[31m'})\n"
        "    return (await ctx.ask('Who?', str)).data\n"
    )
    done = run("call", "who", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    warned, refused = done.err.splitlines()
    assert warned == r'warning: {"a":"\u001b[31m"}'
    assert "cannot be asked" in refused
    assert "elicitation" in refused


def test_progress_is_a_line_each_where_stderr_is_no_terminal(tmp_path: Path) -> None:
    done = run(*CALL, "steps", "message=\x1b[31m[/red]", cwd=tmp_path)
    assert done.out == "done\n"
    lines = done.err.splitlines()
    assert lines == [*(rf"\x1b[31m[/red] {number} ({number}/3)" for number in (1, 2, 3)), "progress (4)"]


def test_progress_is_a_bar_on_a_terminal(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    arguments = ["call", "-f", str(TOOLS), "steps", "pause=0.2", "message=[/odd] \x1b[31mmarkup"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=terminal, env=environ) as process:
        os.close(terminal)
        drawn = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while data := os.read(controller, 4096):
                drawn += data
        os.close(controller)
        assert process.wait(TIMEOUT) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"
    shown = drawn.decode()
    assert "━" in shown
    assert "33%" in shown
    assert r"[/odd] \x1b[31mmarkup 1" in shown


def test_a_broken_source_is_told_and_fails(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def f(:\n")
    done = inside("call", "x")
    assert (done.code, done.out) == (1, "")
    assert f"{tmp_path / 'tools.py'}:1: SyntaxError" in done.err


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
    inside: Inside, tmp_path: Path, pairs: list[str], position: int, expected: Any
) -> None:
    (tmp_path / "tools.py").write_text(TYPED)
    done = inside("call", "typed", *pairs)
    assert (done.code, done.err) == (0, "")
    assert done.json["given"][position] == expected


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [(["text=a", "text=b"], "'text' is given twice"), (["where:={a}"], "'where:={a}' has invalid JSON")],
)
def test_pairs_that_cannot_be_read_are_a_usage_error(
    inside: Inside, tmp_path: Path, pairs: list[str], problem: str
) -> None:
    (tmp_path / "tools.py").write_text(TYPED)
    done = inside("call", "typed", *pairs)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
