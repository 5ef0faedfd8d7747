"""Calls that can restart from the client's state make room for others."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from mcp_bridge import CallContext, Form, ToolCall, ToolRegistry, tool
from mcp_bridge._app.bridge import Bridge
from mcp_bridge.middleware import Stage
from mcp_bridge.questions import NeedsInput
from mcp_bridge.serving import State
from mcp_bridge.testing import connect
from tests.kits.questions.asking_kit import accept, get_code, get_text, make_bridge, make_registry, serve_client


async def fail_to_answer(context: Any, params: Any) -> Any:
    """Fail, because the test sends the answers itself."""
    raise AssertionError("asked by itself")


async def test_unanswered_questions_do_not_block_those_of_needs_input() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def who(ctx: CallContext) -> str | NeedsInput:
        if not ctx.answers:
            return NeedsInput({"name": Form("Who?", str)}, {"asked": 1})
        return f"{ctx.answers['name'].content['value']} {ctx.state['asked']}"

    bridge = Bridge(registry, state=State(suspended=2))
    async with connect(bridge, mode="2026-07-28", elicitation_callback=fail_to_answer) as client:

        async def call(**round_: Any) -> Any:
            return await client.session.call_tool("who", {}, allow_input_required=True, **round_)

        questions = [await call() for _ in range(6)]
        assert all(isinstance(result, types.InputRequiredResult) for result in questions)
        answer = {"name": types.ElicitResult(action="accept", content={"value": "Ada"})}
        for result in questions:
            outcome = await call(request_state=result.request_state, input_responses=answer)
            assert outcome.content[0].text == "Ada 1"


class Checks:
    """A policy with a call of another tool before its decision."""

    stage = Stage.DECIDE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> Any:
        if call.name != "check":
            await ctx.invoke("check")
        return await call_next(call, ctx)


async def test_a_tool_that_a_policy_has_called_is_not_called_again_on_another_instance() -> None:
    ran: list[str] = []

    def instance(label: str) -> Bridge:
        registry = make_registry(Checks())

        @tool(registry=registry)
        async def check(ctx: CallContext) -> str:
            ran.append(label)
            return (await ctx.ask("Sure?", key="sure")).action

        @tool(registry=registry)
        def work() -> str:
            return "done"

        return make_bridge(registry, keys=["k" * 40])

    async with serve_client(instance("a")) as a, serve_client(instance("b")) as b:
        first_client = a.start_call("work")
        await first_client.get_questions()
        second_client = first_client.continue_on(b)
        assert get_code(await second_client.get_result({"sure": accept()})) == "question_expired"
        second_call = a.start_call("work")
        await second_call.get_questions()
        assert get_text(await second_call.get_result({"sure": accept()})) == "done"
    assert ran == ["a", "a"]
