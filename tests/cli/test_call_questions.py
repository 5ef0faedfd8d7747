"""`call` at a terminal asks the user to approve, to choose and to confirm."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.kits.cli.terminal import call_at_terminal
from tests.kits.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

GATE = """
from mcp_bridge.amplifier import HookResult, ToolResult


class Shout:
    name, description = "shout", "Shouts."

    async def execute(self, input):
        return ToolResult(output="HUSH")


def ask(event, data):
    return HookResult(action="ask_user", approval_prompt="Shout at\\x1b[31m this hour?")


async def mount(coordinator, config):
    await coordinator.mount("tools", Shout())
    coordinator.hooks.register("tool:pre", ask)
"""
SETTINGS = """
state: {store: "sqlite:kept.sqlite3"}
approvals: {terminal: false, audit: audit.jsonl}
sources:
  - type: amplifier
    plan: {tools: [{module: gate, source: gate.py}]}
"""
TOOLS = """
from enum import Enum
from typing import Literal
from mcp_bridge import CallContext
from mcp_bridge._engine.authoring import tool


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@tool
async def order(ctx: CallContext) -> str:
    await ctx.report_progress(1, 2, "asking")
    size = await ctx.ask("Which size?", Size)
    sure = await ctx.ask("Sure?")
    return f"{size.data} {sure.action}"


@tool
async def name(ctx: CallContext) -> str:
    return (await ctx.sample("A name, please.")).text
"""

NOISY_TOOLS = """
import logging, os
import anyio
from mcp_bridge import CallContext, tool


@tool
async def order(ctx: CallContext) -> str:
    async def make_noise():
        while True:
            await ctx.log("info", "noise of the call")
            await ctx.report_progress(1, 2, "noise of the progress")
            logging.getLogger("mcp_bridge.x").error("noise of the log")
            print("noise of a print")
            os.write(2, b"noise of a library\\n")
            with open("noise.txt", "a") as file:
                file.write("x")
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make_noise)
        sure = await ctx.ask("Sure?")
        tasks.cancel_scope.cancel()
    return sure.action
"""


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    """Return a folder with a tool and a hook that asks for approval."""
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "mcp-bridge.yaml").write_text(SETTINGS)
    return tmp_path


@pytest.mark.parametrize("answers", [["1\n"], ["allow once\n"], ["maybe\n", "7\n", "1\n"]], ids=str)
def test_a_call_that_the_user_at_the_terminal_approves_runs(answers: list[str], gated: Path) -> None:
    result = call_at_terminal(gated, "shout", answers=answers)
    assert (result.code, result.out) == (0, "HUSH\n")
    assert r"Shout at\u001b[31m this hour?" in result.shown
    assert "  1 = Allow once\r\n  2 = Allow always (same arguments)\r\n  3 = Deny" in result.shown


@pytest.mark.parametrize("answer", ["3\n", "\n", "\x04"], ids=["deny", "nothing", "end of input"])
def test_a_call_that_the_user_does_not_approve_never_runs(answer: str, gated: Path) -> None:
    result = call_at_terminal(gated, "shout", answers=[answer])
    assert (result.code, result.out) == (1, "")
    assert "Tool 'shout' was not approved." in result.shown
    assert '"how": "elicitation"' in (gated / "audit.jsonl").read_text()


def test_text_typed_before_the_question_is_no_answer(gated: Path) -> None:
    assert call_at_terminal(gated, "shout", answers=["3\n"], early="1\n").code == 1


def test_a_choice_for_always_is_remembered(gated: Path) -> None:
    assert call_at_terminal(gated, "shout", answers=["2\n"]).out == "HUSH\n"
    assert call_at_terminal(gated, "shout", answers=[]).out == "HUSH\n"


def test_tools_can_ask_for_a_choice_and_a_confirmation_but_not_for_a_model(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    result = call_at_terminal(tmp_path, "order", answers=["2\n", "no\n"])
    assert (result.code, result.out) == (0, "Size.LARGE decline\n"), result.shown
    unable = call_at_terminal(tmp_path, "name", answers=[])
    assert unable.code == 1
    assert "cannot be asked" in unable.shown


def test_nothing_is_printed_into_an_open_question(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(NOISY_TOOLS)

    def wait_for_noise() -> None:
        size = (tmp_path / "noise.txt").stat().st_size
        wait_until(lambda: (tmp_path / "noise.txt").stat().st_size >= size + 5)

    result = call_at_terminal(tmp_path, "order", answers=["maybe\n", "1\n"], wait=wait_for_noise)
    assert (result.code, result.out) == (0, "accept\n"), result.shown
    question, _, rest = result.shown.partition("Sure?")[2].rpartition("An empty line cancels.")
    assert "noise" not in question
    for origin in ("call", "progress", "log", "print", "library"):
        assert rest.count(f"noise of {'a' if origin in ('print', 'library') else 'the'} {origin}") >= 5


@pytest.mark.parametrize("word", ["", "async "], ids=["in a thread", "in the event loop"])
def test_a_breakpoint_in_a_tool_stops_at_the_terminal(word: str, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        f"from mcp_bridge import tool\n@tool\n{word}def look(text: str) -> str:\n    breakpoint()\n    return text\n"
    )
    answers = ["p text\n", "text = 'changed'\n", "c\n"]
    result = call_at_terminal(tmp_path, "look", "text=given", answers=answers, prompt=re.compile(rb"\(Pdb\) "))
    assert (result.code, result.out) == (0, "changed\n")
    assert "'given'" in result.shown
