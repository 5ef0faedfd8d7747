"""Calls cancelled during or between two questions, and servers that shut down."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, Form, ToolCall, ToolRegistry, ToolResult
from mcp_bridge._contracts.errors import QuestionExpired
from mcp_bridge._engine.authoring import tool
from mcp_bridge.middleware import Stage
from mcp_bridge.questions import NeedsInput
from tests.kits.constants import HANDSHAKE, STATELESS
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import (
    INVALID_STATE,
    NAME_SCHEMA,
    accept,
    get_text,
    is_idle,
    make_bridge,
    make_registry,
    serve_client,
)
from tests.kits.waiting import wait_for_event

pytestmark = BOTH_LOOPS
ANSWER = {"name": accept(name="Ada")}


class Stages:
    """A tool that works and asks twice, with events for its progress and its cancellation."""

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self.at_work = {"first": anyio.Event(), "then": anyio.Event()}
        self.go_on = {"first": anyio.Event(), "then": anyio.Event()}
        self.asking, self.cleaned = anyio.Event(), anyio.Event()
        self.stopped = False
        tool(registry=self.registry)(self.work)

    async def work(self, ctx: CallContext) -> str:
        """Works and asks."""
        try:
            await self._step("first")
            self.asking.set()
            await ctx.ask("Who?", NAME_SCHEMA, key="name")
            await self._step("then")
            await ctx.ask("Who else?", NAME_SCHEMA, key="name")
        except anyio.get_cancelled_exc_class():
            self.stopped = True
            raise
        finally:
            self.cleaned.set()
        return "done"

    async def _step(self, name: str) -> None:
        self.at_work[name].set()
        await self.go_on[name].wait()


async def test_giving_up_the_first_round_before_anything_was_asked_cancels_the_call() -> None:
    stages = Stages()
    bridge = make_bridge(stages.registry)
    async with serve_client(bridge) as client:
        number = await client.start_call("work").send()
        await wait_for_event(stages.at_work["first"])
        await client.cancel(number)
        await wait_for_event(stages.cleaned)
        assert stages.stopped
        assert is_idle(bridge)
        assert "result" in await client.request("tools/list", {})


async def test_cancelling_a_later_round_cancels_the_call_and_its_state_stays_used() -> None:
    stages = Stages()
    stages.go_on["first"].set()
    bridge = make_bridge(stages.registry)
    async with serve_client(bridge) as client:
        call = client.start_call("work")
        await call.get_questions()
        number = await call.send(ANSWER)
        await wait_for_event(stages.at_work["then"])
        await client.cancel(number)
        await wait_for_event(stages.cleaned)
        assert stages.stopped
        assert is_idle(bridge)
        assert await call.get_error(ANSWER) == INVALID_STATE


async def test_cancelling_a_finished_round_changes_nothing() -> None:
    stages = Stages()
    for event in stages.go_on.values():
        event.set()
    async with serve_client(stages.registry) as client:
        call = client.start_call("work")
        number = await call.send()
        await call.receive(number)
        await client.cancel(number)
        await call.get_questions(ANSWER)
        await client.cancel(number)
        assert get_text(await call.get_result(ANSWER)) == "done"


async def test_giving_up_a_round_while_a_store_is_asked_cancels_the_call_too() -> None:
    class Stuck:
        """A store without responses."""

        def __init__(self) -> None:
            self.asked = anyio.Event()

        async def add(self, key: str, value: bytes, ttl: float) -> bool:
            self.asked.set()
            await anyio.sleep_forever()
            return True

    stages, store = Stages(), Stuck()
    stages.go_on["first"].set()
    bridge = make_bridge(stages.registry, store=store)
    async with serve_client(bridge) as client:
        call = client.start_call("work")
        await call.get_questions()
        number = await call.send(ANSWER)
        await wait_for_event(store.asked)
        await client.cancel(number)
        await wait_for_event(stages.cleaned)
        assert stages.stopped


async def test_a_call_of_the_handshake_era_is_cancelled_by_its_client_while_it_asks() -> None:
    stages = Stages()
    stages.go_on["first"].set()
    async with serve_client(stages.registry, version=HANDSHAKE) as client:
        number = await client.send_request("tools/call", {"name": "work", "arguments": {}})
        question = await client.receive_request()
        await client.cancel(number)
        await wait_for_event(stages.cleaned)
        assert stages.stopped
        # A late answer does no harm.
        await client.respond(question, result=accept(name="Ada"))
        assert "result" in await client.request("ping", {})


async def test_cancelling_a_call_of_the_handshake_era_releases_the_thread_that_asks() -> None:
    registry, remainder = ToolRegistry(), anyio.Event()

    @tool(registry=registry)
    def ask_in_thread(ctx: CallContext) -> str:
        """Asks."""
        try:
            anyio.from_thread.run(ctx.ask, "Who?", NAME_SCHEMA)
        finally:
            anyio.from_thread.run_sync(remainder.set)
        return "answered"

    async with serve_client(registry, version=HANDSHAKE) as client:
        number = await client.send_request("tools/call", {"name": "ask_in_thread", "arguments": {}})
        question = await client.receive_request()
        await client.cancel(number)
        await wait_for_event(remainder)
        cancelled = await client.receive(lambda message: message.get("method") == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]


async def test_a_task_that_outlives_its_call_of_the_handshake_era_cannot_ask() -> None:
    registry, errors, ends = ToolRegistry(), [], anyio.Event()

    async with anyio.create_task_group() as tasks:

        async def keep_asking(ctx: CallContext) -> None:
            for _ in range(2):
                try:
                    await ctx.ask("Who?", NAME_SCHEMA)
                except QuestionExpired as error:
                    errors.append(error)
            ends.set()

        @tool(registry=registry)
        async def leave_task(ctx: CallContext) -> str:
            """Returns before its question is answered."""
            tasks.start_soon(keep_asking, ctx)
            await anyio.wait_all_tasks_blocked()
            return "left"

        async with serve_client(registry, version=HANDSHAKE) as client:
            result = await client.request("tools/call", {"name": "leave_task", "arguments": {}})
            assert get_text(result["result"]) == "left"
            await wait_for_event(ends)
            assert len(errors) == 2
            assert [message.get("method") for message in client.received].count("elicitation/create") == 1


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_a_server_that_ends_ends_the_calls_that_wait_for_answers(version: str) -> None:
    stages = Stages()
    stages.go_on["first"].set()
    bridge = make_bridge(stages.registry)
    async with serve_client(bridge, version=version, drain=0.1) as client:
        if version == STATELESS:
            await client.start_call("work").get_questions()
        else:
            await client.send_request("tools/call", {"name": "work", "arguments": {}})
            await client.receive_request()
        assert not stages.cleaned.is_set()
    assert stages.cleaned.is_set()
    assert is_idle(bridge)


async def test_a_server_can_run_again_without_the_calls_of_its_first_run() -> None:
    stages = Stages()
    for event in stages.go_on.values():
        event.set()
    bridge = make_bridge(stages.registry)
    async with serve_client(bridge) as client:
        call = client.start_call("work")
        await call.get_questions()
    async with serve_client(bridge) as client:
        result = await call.continue_on(client).get_result(ANSWER)
        assert result["_meta"]["mcp-bridge/code"] == "question_expired"
        second_call = client.start_call("work")
        await second_call.get_questions()
        await second_call.get_questions(ANSWER)
        assert get_text(await second_call.get_result(ANSWER)) == "done"


async def test_a_thread_that_asks_after_its_call_was_cancelled_receives_an_error() -> None:
    registry, errors, remainder = ToolRegistry(), [], anyio.Event()

    @tool(registry=registry)
    def stubborn(ctx: CallContext) -> str:
        """Asks again whatever happens."""
        for _ in range(3):
            try:
                anyio.from_thread.run(ctx.ask, "Who?")
            except BaseException as error:
                errors.append(error)
        anyio.from_thread.run_sync(remainder.set)
        return "left"

    bridge = make_bridge(registry, ttl=0.3)
    async with serve_client(bridge) as client:
        await client.start_call("stubborn").get_questions()
        await wait_for_event(remainder)
        assert len(errors) == 3
        assert is_idle(bridge)


class Careless:
    """A policy that asks, and returns a result for the tool after its question is cancelled."""

    stage = Stage.DECIDE

    def __init__(self) -> None:
        self.give_up, self.given_up = anyio.Event(), anyio.Event()

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.ask, "Shall it?")
            await self.give_up.wait()
            tasks.cancel_scope.cancel()
        self.given_up.set()
        return ToolResult(output="decided without")


async def test_a_decision_of_a_policy_between_two_rounds_is_returned_in_the_next() -> None:
    careless = Careless()
    registry = make_registry(careless)

    @tool(registry=registry)
    def work() -> str:
        """Works."""
        raise AssertionError("reached")

    bridge = make_bridge(registry)
    async with serve_client(bridge) as client:
        call = client.start_call("work")
        await call.get_questions()
        careless.give_up.set()
        await wait_for_event(careless.given_up)
        assert get_text(await call.get_result()) == "decided without"
        assert is_idle(bridge)


async def test_a_needs_input_whose_state_is_not_json_ends_the_call_with_the_reason() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def endless(ctx: CallContext) -> Any:
        """Wants to keep what contains itself."""
        loop: list[Any] = []
        loop.append(loop)
        return NeedsInput({"name": Form("Who?")}, loop)

    bridge = make_bridge(registry)
    async with serve_client(bridge) as client:
        result = await client.start_call("endless").get_result()
        assert result["_meta"]["mcp-bridge/code"] == "invalid_output"
        assert "$.state" in get_text(result)
        await anyio.wait_all_tasks_blocked()
        assert is_idle(bridge)


async def test_a_tool_that_cancels_its_task_later_fails_alone(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio cancels scopes, not tasks")
    stages = Stages()

    @tool(registry=stages.registry)
    async def cancel_itself(ctx: CallContext) -> None:
        """Have the event loop cancel the task of this call."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await anyio.sleep_forever()

    stages.go_on["first"].set()
    stages.go_on["then"].set()
    async with serve_client(make_bridge(stages.registry)) as client:
        waiting = client.start_call("work")
        await waiting.get_questions()
        assert (await client.start_call("cancel_itself").get_error())["code"] == -32603
        await waiting.get_questions(ANSWER)
        assert get_text(await waiting.get_result(ANSWER)) == "done"
