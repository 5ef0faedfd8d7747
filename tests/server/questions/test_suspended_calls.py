"""Calls that wait for answers: their number, their time limit, and their end."""

from __future__ import annotations

import anyio
import pytest

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._contracts.errors import QuestionExpired
from mcp_bridge._engine.authoring import tool
from tests.kits.constants import HANDSHAKE
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import (
    INVALID_STATE,
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    is_idle,
    list_names,
    make_bridge,
    serve_client,
)
from tests.kits.waiting import wait_for_event, wait_until_true

pytestmark = BOTH_LOOPS
ANSWER = {"name": accept(name="Ada")}
SOON_OVER = 0.3
"""A short time to live, so that the test does not wait long."""


class Waiting:
    """A tool with a question, and with a record of its cancellation and cleanup."""

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self.cleaned = anyio.Event()
        self.went_on: list[str] = []
        tool(registry=self.registry)(self.ask)
        tool(registry=self.registry)(self.ask_from_a_thread)

    async def ask(self, ctx: CallContext, times: int = 1) -> str:
        """Asks."""
        try:
            for _ in range(times):
                self.went_on.append((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"])
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                self.cleaned.set()
        return " ".join(self.went_on)

    def ask_from_a_thread(self, ctx: CallContext) -> str:
        """Asks."""
        try:
            self.went_on.append(anyio.from_thread.run(_ask, ctx))
        finally:
            anyio.from_thread.run_sync(self.cleaned.set)
        return self.went_on[-1]


async def _ask(ctx: CallContext) -> str:
    return str((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"])


async def test_a_question_beyond_the_limit_is_rejected_and_the_first_stays_open() -> None:
    waiting = Waiting()
    bridge = make_bridge(waiting.registry, suspended=1)
    async with serve_client(bridge) as client:
        first = client.start_call("ask")
        await first.get_questions()
        for _ in range(3):
            assert get_code(await client.start_call("ask").get_result()) == "overloaded"
        assert get_text(await first.get_result(ANSWER)) == "Ada"
        assert is_idle(bridge)
        assert list_names(await client.start_call("ask").get_questions()) == ["name"]


async def test_calls_that_ask_concurrently_are_counted_too() -> None:
    waiting = Waiting()
    async with serve_client(make_bridge(waiting.registry, suspended=3)) as client:
        calls = [client.start_call("ask") for _ in range(10)]
        messages = [await call.send() for call in calls]
        answers = [await call.receive(number) for call, number in zip(calls, messages, strict=True)]
        codes = [get_code(answer["result"]) for answer in answers]
        assert sorted(code or "" for code in codes) == [""] * 3 + ["overloaded"] * 7


async def test_a_call_uses_one_place_however_many_questions_it_asks() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def both(ctx: CallContext) -> str:
        """Asks two things at once."""
        got = await ctx.put({"a": Form("A?", NAME_SCHEMA), "b": Form("B?", NAME_SCHEMA)})
        return f"{got['a'].content['name']} {got['b'].content['name']}"

    bridge = make_bridge(registry, suspended=1)
    async with serve_client(bridge) as client:
        call = client.start_call("both")
        assert list_names(await call.get_questions()) == ["a", "b"]
        assert list_names(await call.get_questions({"a": accept(), "b": accept(name="Bob")})) == ["a"]
        assert get_code(await client.start_call("both").get_result()) == "overloaded"
        assert get_text(await call.get_result({"a": accept(name="Ada")})) == "Ada Bob"
        assert is_idle(bridge)


async def test_calls_without_questions_need_no_place() -> None:
    waiting = Waiting()

    @tool(registry=waiting.registry)
    async def silent(ctx: CallContext) -> str:
        """Asks nothing."""
        return "done"

    async with serve_client(make_bridge(waiting.registry, suspended=1)) as client:
        await client.start_call("ask").get_questions()
        assert get_text(await client.start_call("silent").get_result()) == "done"
        # The client answers this call before it has to wait.
        assert get_text(await client.start_call("ask").get_result(ANSWER)) == "Ada"


async def test_a_call_without_an_answer_in_time_is_cancelled_and_frees_its_place() -> None:
    waiting = Waiting()
    bridge = make_bridge(waiting.registry, suspended=1, ttl=SOON_OVER)
    async with serve_client(bridge) as client:
        call = client.start_call("ask")
        await call.get_questions()
        await wait_for_event(waiting.cleaned)
        await wait_until_true(lambda: is_idle(bridge))
        # The seal is valid a moment longer than the call.
        await anyio.sleep(SOON_OVER / 2)
        assert await call.get_error(ANSWER) == INVALID_STATE
        assert list_names(await client.start_call("ask").get_questions()) == ["name"]
    assert waiting.went_on == []


async def test_a_synchronous_tool_without_an_answer_releases_its_thread() -> None:
    waiting = Waiting()
    bridge = make_bridge(waiting.registry, ttl=SOON_OVER)
    async with serve_client(bridge) as client:
        await client.start_call("ask_from_a_thread").get_questions()
        # While the call asks, other calls can use its thread.
        assert waiting.registry.pipeline.threads.busy_count == 0
        await wait_for_event(waiting.cleaned)
        await wait_until_true(lambda: waiting.registry.pipeline.threads.busy_count == 0)
        await wait_until_true(lambda: is_idle(bridge))
    assert waiting.went_on == []


async def test_each_question_waits_for_the_whole_time() -> None:
    registry, deadlines = ToolRegistry(), []
    look, looked = anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks twice, and notes until when it may wait."""
        nonlocal look

        async def watch() -> None:
            nonlocal look
            while True:
                await look.wait()
                look = anyio.Event()
                deadlines.append(anyio.current_effective_deadline())
                looked.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            got = [(await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"] for _ in range(2)]
            tasks.cancel_scope.cancel()
        return " ".join(got)

    async def observe() -> None:
        nonlocal looked
        looked = anyio.Event()
        look.set()
        await wait_for_event(looked)

    async with serve_client(make_bridge(registry, ttl=1000.0)) as client:
        call = client.start_call("ask")
        # The same question is repeated under new states, then the second question follows.
        for answer in (None, None, None, ANSWER):
            await call.get_questions(answer)
            await observe()
        assert get_text(await call.get_result(ANSWER)) == "Ada Ada"
        start = anyio.current_time()
    assert sorted(set(deadlines)) == deadlines
    assert len(deadlines) == 4
    assert start < deadlines[0] < deadlines[-1] <= start + 1000.0


async def test_a_call_that_cancels_its_question_keeps_its_place_until_its_client_returns() -> None:
    registry, give_up, given_up = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def impatient(ctx: CallContext) -> str:
        """Asks, but not for long."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.ask, "Who?", NAME_SCHEMA)
            await give_up.wait()
            tasks.cancel_scope.cancel()
        given_up.set()
        return "went on without"

    @tool(registry=registry)
    async def late(ctx: CallContext) -> str:
        """Asks."""
        return (await ctx.ask("Who?", NAME_SCHEMA)).action

    bridge = make_bridge(registry, suspended=1)
    async with serve_client(bridge) as client:
        first = client.start_call("impatient")
        await first.get_questions()
        give_up.set()
        await wait_for_event(given_up)
        assert get_code(await client.start_call("late").get_result()) == "overloaded"
        assert get_text(await first.get_result()) == "went on without"
        assert is_idle(bridge)


async def test_a_result_that_no_client_fetches_in_time_is_dropped() -> None:
    registry, give_up, ends = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def impatient(ctx: CallContext) -> str:
        """Asks, but not for long."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ctx.ask, "Who?", NAME_SCHEMA)
                await give_up.wait()
                tasks.cancel_scope.cancel()
        finally:
            ends.set()
        return "went on without"

    bridge = make_bridge(registry, ttl=SOON_OVER)
    async with serve_client(bridge) as client:
        await client.start_call("impatient").get_questions()
        give_up.set()
        await wait_for_event(ends)
        await wait_until_true(lambda: is_idle(bridge))


async def test_a_question_of_the_handshake_era_expires_in_the_tool() -> None:
    registry, expired = ToolRegistry(), []

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        return (await ctx.ask("Who?", NAME_SCHEMA)).action

    @tool(registry=registry)
    async def ask_or_not(ctx: CallContext) -> str:
        """Asks, and goes on without."""
        try:
            return (await ctx.sample("Hi")).text
        except QuestionExpired as error:
            expired.append(error.code)
            return "went on without"

    async with serve_client(make_bridge(registry, ttl=SOON_OVER), version=HANDSHAKE) as client:
        answer = await client.request("tools/call", {"name": "ask", "arguments": {}})
        assert get_code(answer["result"]) == "question_expired"
        answer = await client.request("tools/call", {"name": "ask_or_not", "arguments": {}})
        assert get_text(answer["result"]) == "went on without"
        late = await client.receive_request()
        # A late answer does no harm.
        await client.respond(late, result=accept(name="Ada"))
        assert "result" in await client.request("ping", {})
    assert expired == ["question_expired"]


async def test_many_abandoned_calls_leave_nothing_in_memory() -> None:
    waiting = Waiting()
    bridge = make_bridge(waiting.registry, ttl=SOON_OVER)
    async with serve_client(bridge) as client:
        await client.start_call("ask").get_result(ANSWER)
        await anyio.wait_all_tasks_blocked()
        before = len(anyio.get_running_tasks())
        for _ in range(30):
            await client.start_call("ask").get_questions()
        await wait_until_true(lambda: is_idle(bridge))
        await wait_until_true(lambda: len(anyio.get_running_tasks()) <= before)


@pytest.mark.parametrize("suspended", [1, 2])
async def test_places_are_released_however_a_call_ends(suspended: int) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def end(how: str, ctx: CallContext) -> str:
        """Asks, and ends in some way."""
        answer = await ctx.ask("Who?", NAME_SCHEMA, key="name")
        if how == "raise":
            raise RuntimeError("on purpose")
        if how == "exit":
            raise SystemExit(3)
        return answer.action

    bridge = make_bridge(registry, suspended=suspended)
    async with serve_client(bridge) as client:
        for how in ("return", "raise", "exit", "return"):
            call = client.start_call("end", {"how": how})
            await call.get_questions()
            await call.get_result(ANSWER)
            assert is_idle(bridge)
