"""Handlers that yield, need input without a client, or raise another error when they are cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from mcp_bridge import Form, ToolCall, ToolEntry, ToolRegistry, tool
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.pipeline import ROUNDS
from mcp_bridge.middleware import Pipeline
from mcp_bridge.questions import NeedsInput
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS


def build_registry(handler: Any, **options: Any) -> ToolRegistry:
    registry = ToolRegistry(pipeline=Pipeline(**options))
    registry.register(ToolEntry("t", "A tool.", handler))
    return registry


async def dispatch(registry: ToolRegistry) -> Any:
    return await registry.dispatch(ToolCall(id="1", name="t", arguments={}), RunningCall())


@BOTH_LOOPS
async def test_what_a_tool_yields_is_its_answer_as_a_list() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def counted(to: int) -> Iterator[int]:
        yield from range(to)

    @tool(registry=registry)
    async def awaited(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    async with connect(registry) as client:
        for name in ("counted", "awaited"):
            result = await client.call_tool(name, {"to": 3})
            assert result.content[0].text == "[0,1,2]"


async def test_in_process_a_handler_that_needs_input_has_failed() -> None:
    registry = build_registry(lambda data: NeedsInput({"who": Form("Who?")}))
    for result in (registry.invoke("t", {}), await registry.ainvoke("t", {})):
        assert not result.ok
        assert "needs input from a user" in result.message
    assert (await dispatch(registry)).code == "missing_capability"


def test_needs_input_requires_a_question() -> None:
    for nothing in ({}, None, []):
        with pytest.raises(ValueError, match="at least one question"):
            NeedsInput(nothing)  # type: ignore[arg-type]


async def test_a_handler_that_always_needs_more_is_ended() -> None:
    class Patient(RunningCall):
        async def put(self, questions: Any) -> Any:
            return dict.fromkeys(questions, "yes")

    runs: list[int] = []

    def insatiable(data: Any) -> NeedsInput:
        runs.append(1)
        return NeedsInput({"more": Form("More?")})

    result = await build_registry(insatiable).dispatch(ToolCall(id="1", name="t", arguments={}), Patient())
    assert result.code == "question_expired"
    assert len(runs) == ROUNDS


@BOTH_LOOPS
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt()], ids=repr)
async def test_an_error_during_a_cancellation_does_not_end_other_calls(error: BaseException) -> None:
    starts = anyio.Event()

    async def spiteful(data: Any) -> None:
        starts.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            raise BaseExceptionGroup("both", [cancelled, error]) from None

    # Other calls run in the same task group. The error would end them if it left the group.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dispatch, build_registry(spiteful))
        await starts.wait()
        tasks.cancel_scope.cancel()


@BOTH_LOOPS
async def test_a_tool_that_times_out_and_raises_another_error_has_failed() -> None:
    async def spiteful(data: Any) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            raise BaseExceptionGroup("both", [cancelled, SystemExit(1)]) from None

    assert (await dispatch(build_registry(spiteful, timeout=0.01))).code == "internal_error"
