"""A question without a schema: clients show a checkbox, and the answer itself is the yes or the no."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._engine.authoring import tool
from mcp_bridge._settings import load
from mcp_bridge.questions import NeedsInput
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.questions.asking_kit import get_text
from tests.kits.questions.simulated_users import SimulatedUser

YES = types.ElicitResult(action="accept", content={"confirm": True})
NO = types.ElicitResult(action="accept", content={"confirm": False})
BUTTON = types.ElicitResult(action="accept")
EMPTY = types.ElicitResult(action="accept", content={})
INVALID = types.ElicitResult(action="accept", content={"confirm": "perhaps"})
DECLINED = types.ElicitResult(action="decline")


async def confirm(user: Any, mode: str) -> str:
    """Return the tool's view of the user's answer."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def delete(ctx: CallContext) -> str:
        """Delete everything."""
        answer = await ctx.ask("Delete everything?")
        return f"{bool(answer)} {answer.action} {dict(answer.content)} {answer.data}"

    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        return get_text(await client.call_tool("delete", {}))


@EVERY_ERA
@pytest.mark.parametrize(
    ("user_answer", "expected"),
    [
        (YES, "True accept {} {}"),
        (BUTTON, "True accept {} {}"),
        (EMPTY, "True accept {} {}"),
        (NO, "False decline {} None"),
        (DECLINED, "False decline {} None"),
    ],
    ids=["checked", "button", "empty form", "unchecked", "declined"],
)
async def test_the_answer_is_true_only_if_the_user_confirms(user_answer: Any, expected: str, mode: str) -> None:
    assert await confirm(SimulatedUser(user_answer), mode) == expected


@EVERY_ERA
async def test_an_invalid_confirmation_is_asked_again(mode: str) -> None:
    user = SimulatedUser(INVALID, NO)
    assert await confirm(user, mode) == "False decline {} None"
    assert len(user.questions) == 2


@EVERY_ERA
async def test_a_needed_confirmation_that_is_unchecked_is_a_no(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def delete(ctx: CallContext) -> Any:
        """Delete everything."""
        if ctx.state is None:
            return NeedsInput({"sure": Form("Delete everything?")}, state=1)
        return ctx.answers["sure"].action

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(NO)) as client:
        assert get_text(await client.call_tool("delete", {})) == "decline"


@pytest.fixture
def warned() -> Any:
    """Return a list with the warnings of a test."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_question_that_is_not_awaited_has_no_truth_value(warned: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"Write `await ctx.ask\(...\)`"):
        bool(CallContext().ask("Sure?"))
    gc.collect()
    assert warned == []


def test_python_warns_about_a_question_that_is_only_forgotten(warned: list[Any]) -> None:
    CallContext().ask("Sure?")
    gc.collect()
    assert [str(warning.message) for warning in warned] == ["coroutine 'CallContext.ask' was never awaited"]


async def test_a_question_can_be_asked_from_a_thread() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def count(ctx: CallContext) -> int:
        """Count."""
        return int(anyio.from_thread.run(ctx.ask, "How many?", int).data)

    user = SimulatedUser(types.ElicitResult(action="accept", content={"value": 7}))
    async with connect(registry, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("count", {})) == "7"


def test_a_question_can_run_as_a_task() -> None:
    async def main() -> Any:
        return await asyncio.create_task(CallContext().ask("Sure?", fallback=None))

    assert asyncio.run(main()) is None


async def test_a_confirmation_of_a_worker_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import CallContext, tool\n\n\n@tool\nasync def delete(ctx: CallContext) -> str:\n"
        "    answer = await ctx.ask('Delete everything?')\n    return f'{bool(answer)} {answer.action}'\n"
    )
    (tmp_path / "some.yaml").write_text("sources:\n  - {type: python, path: tools.py, isolation: process}\n")
    user = SimulatedUser(YES, NO)
    async with connect(build_from_settings(load(tmp_path / "some.yaml", {})), elicitation_callback=user) as client:
        answers = [get_text(await client.call_tool("delete", {})) for _ in range(2)]
    assert answers == ["True accept", "False decline"]
    assert "confirm" in user.questions[0].requested_schema["properties"]
