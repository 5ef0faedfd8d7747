"""`call` at a terminal asks the user to fill in forms and to open pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kits.cli.terminal import INTERRUPT, TerminalResult, call_at_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

TOOLS = """
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

from mcp_bridge import CallContext, tool


@dataclass
class Delivery:
    '''The address of a delivery.

    Attributes:
        street: Street and number.
    '''

    street: str
    day: date
    floor: int | None = None
    slot: Literal["noon", "evening"] = "noon"
    extras: list[Literal["salt", "bread"]] | None = None
    gift: bool = False


class Seat(BaseModel):
    row: int

    @field_validator("row")
    @classmethod
    def check_row(cls, row):
        if row == 13:
            raise ValueError("there is no row 13")
        return row


@tool
async def order(ctx: CallContext) -> str:
    answer = await ctx.ask("Where to?", Delivery)
    return f"{answer.action} {answer.data}"


@tool
async def count(ctx: CallContext) -> str:
    answer = await ctx.ask("How many?", Annotated[int, Field(ge=1, le=9)])
    return f"{answer.action} {answer.data}"


@tool
async def sit(ctx: CallContext) -> str:
    return str((await ctx.ask("Where?", Seat)).data)


@tool
async def sign_in(ctx: CallContext) -> str:
    assert "url" in ctx.capabilities["elicitation"]
    return (await ctx.ask("Sign in.", url="https://example.com/in?a=1")).action
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def call(folder: Path, tool: str, *answers: str) -> TerminalResult:
    return call_at_terminal(folder, tool, answers=[*answers])


def test_the_fields_of_a_form_are_asked_in_order(folder: Path) -> None:
    result = call(folder, "order", "Elm 1\n", "2026-12-24\n", "3\n", "2\n", "2, salt\n", "y\n")
    assert result.out == (
        "accept Delivery(street='Elm 1', day=datetime.date(2026, 12, 24), floor=3, slot='evening', "
        "extras=['bread', 'salt'], gift=True)\n"
    ), result.shown
    assert "Where to?\r\n[1/6] street: Street and number.\r\nType text. An empty line cancels.\r\n" in result.shown
    assert "  1 = noon\r\n  2 = evening\r\n" in result.shown


def test_an_empty_line_means_the_default_or_leaves_a_field_out(folder: Path) -> None:
    result = call(folder, "order", "Elm 1\n", "2026-12-24\n", "\n", "\n", "\n", "\n")
    assert "floor=None, slot='noon', extras=None, gift=False" in result.out
    assert "An empty line leaves it out." in result.shown
    assert "An empty line means noon." in result.shown
    assert "An empty line means No." in result.shown


def test_an_invalid_value_leads_to_another_question(folder: Path) -> None:
    result = call(folder, "count", "many\n", "70\n", "7\n")
    assert result.out == "accept 7\n"
    assert "Type a whole number (at least 1, at most 9). An empty line cancels." in result.shown
    assert "This is not valid: 'many' is not a whole number" in result.shown
    assert "This is not valid: value 70 > maximum 9" in result.shown


def test_a_value_that_the_type_rejects_leads_to_another_question(folder: Path) -> None:
    result = call(folder, "sit", "13\n", "14\n")
    assert result.out == "row=14\n", result.shown
    assert "This is not valid: row: Value error, there is no row 13" in result.shown


@pytest.mark.parametrize("line", ["\n", "\x04"], ids=["empty line", "end of input"])
def test_a_required_field_can_be_canceled(line: str, folder: Path) -> None:
    assert call(folder, "count", line).out == "cancel None\n"


def test_a_page_is_shown_and_confirmed(folder: Path) -> None:
    result = call(folder, "sign_in", "1\n")
    assert result.out == "accept\n", result.shown
    assert "Sign in.\r\n  https://example.com/in?a=1\r\n" in result.shown
    assert call(folder, "sign_in", "no\n").out == "decline\n"
    assert call(folder, "sign_in", "\n").out == "cancel\n"


def test_ctrl_c_at_a_question_ends_the_command(folder: Path) -> None:
    result = call(folder, "count", INTERRUPT)
    assert (result.code, result.out) == (130, "")
