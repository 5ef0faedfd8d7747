"""An exception under `call` shows the code of the user, in the log and as JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import RunHere

TOOLS = """
from mcp_bridge import CallContext, tool


def check(number):
    try:
        return 1 / number
    except ZeroDivisionError as error:
        raise RuntimeError("broken") from error


@tool
def fail() -> float:
    return check(0)


@tool
async def fail_inside(ctx: CallContext) -> str:
    return (await ctx.invoke("fail")).error_text


@tool
async def forget(ctx: CallContext) -> str:
    return "yes" if ctx.ask("Sure?") else "no"


class Unprintable(Exception):
    def __str__(self):
        raise ValueError


@tool
def break_schema() -> dict[str, int]:
    return {"apples": "none left"}


@tool
async def hide() -> str:
    raise Unprintable
"""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tools.py"


def list_files(log: str) -> list[str]:
    return [Path(file).name for file in re.findall(r'File "(.*?)"', log)]


def test_a_result_that_breaks_its_schema_is_shown_with_the_error(run_here: RunHere) -> None:
    command = run_here("call", "break_schema")
    assert (command.code, command.out) == (1, "")
    error, _, result = command.err.partition("The result was:\n")
    assert "$.apples" in error
    assert result == '{"apples":"none left"}\n'


def test_invalid_arguments_are_reported_with_the_parameters(run_here: RunHere) -> None:
    command = run_here("call", "fail", "number=1")
    assert (command.code, command.out) == (1, "")
    assert command.err.endswith("\nParameters: none\n")


def test_the_traceback_has_only_frames_of_the_user(run_here: RunHere) -> None:
    result = run_here("call", "fail")
    assert result.code == 1
    assert list_files(result.err) == ["tools.py"] * 3
    assert "ZeroDivisionError" in result.err
    assert "RuntimeError: broken" in result.err


def test_the_traceback_of_a_worker_has_only_frames_of_the_user(run_here: RunHere, tools: Path) -> None:
    settings = "sources:\n  - {type: python, path: tools.py, isolation: process}\n"
    (tools.parent / "isolated.yaml").write_text(settings)
    result = run_here("call", "fail", "--file", "isolated.yaml")
    assert list_files(result.err) == ["tools.py"] * 3
    assert "RuntimeError: broken" in result.err


def test_at_debug_the_traceback_has_all_frames(run_here: RunHere) -> None:
    assert "pipeline.py" in list_files(run_here("call", "fail", "--log-level", "debug").err)


def test_json_has_the_exception_and_its_reference(run_here: RunHere) -> None:
    result = run_here("call", "fail", "--json", "--log-level", "critical").json
    assert result["reference"] in result["error"]
    exception = result["exception"]
    assert (exception["type"], exception["message"]) == ("RuntimeError", "broken")
    assert list_files(exception["traceback"]) == ["tools.py"] * 3


def test_json_has_no_exception_of_another_call(run_here: RunHere) -> None:
    assert run_here("call", "fail_inside", "--json").json.keys() == {"ok", "output", "duration_ms"}


def test_an_exception_without_text_is_shown(run_here: RunHere) -> None:
    assert run_here("call", "hide", "--json").json["exception"]["type"] == "Unprintable"


def test_a_missing_await_is_explained_without_a_warning(run_here: RunHere) -> None:
    result = run_here("call", "forget")
    assert "TypeError: ctx.ask(...) was not awaited" in result.err
    assert "never awaited" not in result.err
    assert list_files(result.err) == ["tools.py"]
