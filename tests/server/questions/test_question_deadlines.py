"""The deadline of a call is paused while the user is asked, and continues with the remaining time."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import mcp_types as types

from mcp_bridge import CallContext, ToolCall, ToolRegistry, ToolResult
from mcp_bridge._engine.authoring import tool
from mcp_bridge.middleware import Stage
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import (
    accept,
    get_code,
    get_text,
    list_names,
    make_bridge,
    make_registry,
    serve_client,
)
from tests.kits.questions.simulated_users import SimulatedUser
from tests.kits.waiting import wait_for_event

NEVER = float("inf")
SHORT = 2.0
"""A time limit that a user who takes their time does not keep."""
LONG = 1e6


class Slow:
    """A slow user. `took` is the duration of the answers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.took = 0.0

    async def __call__(self, params: Any) -> Any:
        began = anyio.current_time()
        await anyio.sleep(self._seconds)
        self.took += anyio.current_time() - began
        return types.ElicitResult(action="accept", content={})


def get_deadline(ctx: CallContext) -> float:
    """Return the deadline of the call; it is infinite while the time is stopped."""
    return NEVER if ctx.deadline is None else ctx.deadline


class Approval:
    """Asks a user before a tool runs."""

    stage = Stage.DECIDE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        await ctx.ask("Shall it?")
        result: ToolResult = await call_next(call, ctx)
        return result


@BOTH_LOOPS
@EVERY_ERA
async def test_the_remaining_time_is_the_same_before_and_after_a_question(mode: str) -> None:
    registry, slow = make_registry(timeout=60.0), Slow(0.1)
    observations: dict[str, float] = {}
    asked = 0.0

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks twice."""
        nonlocal asked
        observations["before"] = get_deadline(ctx)
        began = anyio.current_time()
        await ctx.ask("Once?")
        await ctx.ask("Twice?")
        asked = anyio.current_time() - began
        observations["after"] = get_deadline(ctx)

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(slow)) as client:
        await client.call_tool("ask", {})
    assert slow.took <= observations["after"] - observations["before"] <= asked


@EVERY_ERA
async def test_a_user_may_take_longer_than_the_time_limit_of_the_call(mode: str) -> None:
    registry = make_registry(timeout=SHORT)

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        return (await ctx.ask("Well?")).action

    @tool(registry=registry)
    def ask_from_a_thread(ctx: CallContext) -> str:
        """Asks."""
        return anyio.from_thread.run(ctx.ask, "Well?").action

    ended: dict[str, str] = {}

    async def ends(client: Any, name: str) -> None:
        ended[name] = get_text(await client.call_tool(name, {}))

    async with (
        connect(registry, mode=mode, elicitation_callback=SimulatedUser(Slow(SHORT * 1.1))) as client,
        anyio.create_task_group() as tasks,
    ):
        for name in ("ask", "ask_from_a_thread"):
            tasks.start_soon(ends, client, name)
    assert ended == {"ask": "accept", "ask_from_a_thread": "accept"}


@EVERY_ERA
async def test_a_tool_that_takes_too_long_after_the_answer_is_stopped(mode: str) -> None:
    registry, ends = make_registry(timeout=SHORT), anyio.Event()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks, and then does not end."""
        await ctx.ask("Well?")
        try:
            await anyio.sleep_forever()
        finally:
            ends.set()

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser("accept")) as client:
        assert get_code(await client.call_tool("ask", {})) == "timeout"
    assert ends.is_set()


@EVERY_ERA
async def test_what_a_policy_asks_is_not_on_the_tools_time(mode: str) -> None:
    registry = make_registry(Approval(), timeout=SHORT)

    @tool(registry=registry)
    async def quick(ctx: CallContext) -> bool:
        """Is quick."""
        return ctx.deadline is not None and ctx.deadline > anyio.current_time()

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(Slow(SHORT * 1.1))) as client:
        assert get_text(await client.call_tool("quick", {})) == "true"


@BOTH_LOOPS
async def test_deadlines_are_paused_until_the_last_answer() -> None:
    registry, deadlines = make_registry(timeout=60.0), []
    look, looked = [anyio.Event(), anyio.Event()], [anyio.Event(), anyio.Event()]

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks two things beside each other."""

        async def watch() -> None:
            for questions, observations in zip(look, looked, strict=True):
                await questions.wait()
                deadlines.append(get_deadline(ctx))
                observations.set()

        async def one(key: str) -> None:
            await ctx.ask("Well?", key=key)

        async with anyio.create_task_group() as tasks:
            for item in (watch, partial(one, "a"), partial(one, "b")):
                tasks.start_soon(item)
        deadlines.append(get_deadline(ctx))

    async def observe(number: int) -> None:
        look[number].set()
        await wait_for_event(looked[number])

    async with serve_client(make_bridge(registry, ttl=LONG)) as client:
        call = client.start_call("ask")
        assert list_names(await call.get_questions()) == ["a", "b"]
        await observe(0)
        assert list_names(await call.get_questions({"a": accept()})) == ["b"]
        await observe(1)
        await call.get_result({"b": accept()})
    remainder = [deadline - anyio.current_time() for deadline in deadlines]
    # Only the time limit of the question remains.
    assert min(remainder[:2]) > LONG / 2
    assert 0 < remainder[2] <= 60.0


@BOTH_LOOPS
@EVERY_ERA
async def test_a_question_of_a_nested_call_pauses_both_deadlines(mode: str) -> None:
    registry, slow = make_registry(timeout=60.0), Slow(0.1)
    observations: list[float] = []

    def look(ctx: CallContext) -> None:
        observations.append(get_deadline(ctx))

    @tool(registry=registry)
    async def inner(ctx: CallContext) -> None:
        """Asks."""
        look(ctx)
        await ctx.ask("Well?")
        look(ctx)

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> None:
        """Has the other ask."""
        look(ctx)
        await ctx.invoke("inner")
        look(ctx)

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(slow)) as client:
        await client.call_tool("outer", {})
    before, starts, questions, after = observations
    assert after - before >= slow.took
    assert questions - starts >= slow.took


@BOTH_LOOPS
async def test_the_deadline_of_a_call_that_asks_during_another_question_is_paused_too() -> None:
    registry, remainder = make_registry(timeout=60.0), {}
    question, look, looked = anyio.Event(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def inner(ctx: CallContext) -> None:
        """Asks."""

        async def watch() -> None:
            await look.wait()
            remainder["while both are asked"] = get_deadline(ctx) - anyio.current_time()
            looked.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await ctx.ask("Inside?", key="inner")
        remainder["inside, after"] = get_deadline(ctx) - anyio.current_time()

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> None:
        """Asks beside the other."""

        async def ask() -> None:
            await ctx.ask("Outside?", key="outer")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await question.wait()
            await ctx.invoke("inner")
        remainder["outside, after"] = get_deadline(ctx) - anyio.current_time()

    async with serve_client(make_bridge(registry, ttl=LONG)) as client:
        call = client.start_call("outer")
        assert set(await call.get_questions()) == {"outer"}
        question.set()
        questions: set[str] = set()
        while questions != {"inner", "outer"}:
            questions = set(await call.get_questions())
        look.set()
        await wait_for_event(looked)
        await call.get_questions({"outer": accept()})
        await call.get_result({"inner": accept()})
    assert remainder["while both are asked"] > LONG / 2
    assert 0 < remainder["inside, after"] <= 60.0
    assert 0 < remainder["outside, after"] <= 60.0


@BOTH_LOOPS
async def test_a_call_without_a_time_limit_has_none_after_a_question() -> None:
    registry = make_registry(timeout=None)
    observations: list[Any] = []

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks."""
        await ctx.ask("Well?", key="well")
        observations.append(ctx.deadline)

    async with serve_client(registry) as client:
        call = client.start_call("ask")
        await call.get_questions()
        await call.get_result({"well": accept()})
    assert observations == [None]


@BOTH_LOOPS
async def test_a_timeout_within_a_tool_continues_while_it_asks() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks, but not for long."""
        with anyio.move_on_after(0.05):
            return (await ctx.ask("Well?")).action
        return "no answer"

    async def never(params: Any) -> Any:
        await anyio.sleep_forever()

    async with connect(registry, mode="legacy", elicitation_callback=SimulatedUser(never)) as client:
        assert get_text(await client.call_tool("ask", {})) == "no answer"
