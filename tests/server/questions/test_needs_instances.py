"""The required input of a handler on several instances: each resumes the calls of the others."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge import CallContext, ToolCall, ToolRegistry, ToolResult
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._engine.authoring import tool
from mcp_bridge.middleware import Stage
from mcp_bridge.questions import Link, NeedsInput, Roots, Sampling
from tests.kits.questions.asking_kit import (
    accept,
    get_code,
    get_text,
    list_names,
    make_bridge,
    make_registry,
    make_sampling_result,
    serve_client,
)
from tests.kits.questions.asking_tools import WHO, register_collect

KEY = "a key of at least thirty-two bytes, shared"


def build_instance(inputs: list[Any]) -> Bridge:
    """Build one of several instances."""
    registry = ToolRegistry()
    register_collect(registry, inputs)

    @tool(registry=registry)
    def everything(ctx: CallContext, state: Any = None) -> Any:
        """Needs one of each."""
        questions = {"form": WHO, "page": Link("Open.", "https://example.com/"), "model": Sampling("Hi", 9)}
        if not ctx.answers:
            return NeedsInput({**questions, "roots": Roots()}, state)
        assert ctx.state == state
        got = ctx.answers
        return f"{got['form'].content['name']} {got['page'].action} {got['model'].text} {got['roots'][0].uri}"

    return make_bridge(registry, keys=[KEY])


EVERY_ANSWER = {
    "form": accept(name="Ada"),
    "page": {"action": "accept"},
    "model": make_sampling_result("Hello"),
    "roots": {"roots": [{"uri": "file:///a"}]},
}


async def test_each_instance_resumes_where_another_ended_even_with_the_same_question() -> None:
    observations: list[Any] = []
    first, second = build_instance(observations), build_instance(observations)
    async with serve_client(first) as first_client, serve_client(second) as second_client:
        call = first_client.start_call("collect")
        await call.get_questions()
        for client, name in ((second_client, "Ada"), (first_client, "Bob")):
            call = call.continue_on(client)
            await call.get_questions({"name": accept(name=name)})
        call = call.continue_on(second_client)
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert [state for _, state in observations] == [None, [], ["Ada"], ["Ada", "Bob"]]


@pytest.mark.parametrize("state", [None, 0, "ünï \ud83d\ude00", [1, [2.5, None]], {"a": {"b": [True]}}], ids=str)
async def test_every_kind_of_question_and_of_state_travels_to_another_instance(state: Any) -> None:
    first, second = build_instance([]), build_instance([])
    async with serve_client(first) as first_client, serve_client(second) as second_client:
        call = first_client.start_call("everything", {"state": state})
        questions = await call.get_questions()
        some = {key: EVERY_ANSWER[key] for key in ("form", "model")}
        call = call.continue_on(second_client)
        remainder = await call.get_questions(some)
        assert remainder == {key: questions[key] for key in ("page", "roots")}
        call = call.continue_on(first_client)
        remainder = {key: EVERY_ANSWER[key] for key in remainder}
        assert get_text(await call.get_result(remainder)) == "Ada accept Hello file:///a"


class Approval:
    """Asks once, before a tool runs."""

    stage = Stage.DECIDE

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        self.asked += 1
        await ctx.ask("Shall it?", key="approve")
        result: ToolResult = await call_next(call, ctx)
        return result


async def test_a_policy_s_question_is_asked_once_whatever_a_handler_needs_after_it() -> None:
    observations: list[Any] = []

    def instance() -> Bridge:
        registry = make_registry(Approval())
        register_collect(registry, observations)
        return make_bridge(registry, keys=[KEY])

    async with serve_client(instance()) as first_client, serve_client(instance()) as second_client:
        call = first_client.start_call("collect")
        assert list_names(await call.get_questions()) == ["approve"]
        call = call.continue_on(second_client)
        assert list_names(await call.get_questions({"approve": accept()})) == ["name"]
        for client, name in ((first_client, "Ada"), (second_client, "Bob")):
            call = call.continue_on(client)
            assert list_names(await call.get_questions({"name": accept(name=name)})) == ["name"]
        call = call.continue_on(first_client)
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert len(observations) == 4


class Sure:
    """A policy with a typed question before a tool runs."""

    stage = Stage.DECIDE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        answer = await ctx.ask("Sure?", bool, key="sure")
        if answer.data is not True:
            raise ApprovalDeclined(f"Not sure: {answer.data}")
        result: ToolResult = await call_next(call, ctx)
        return result


@pytest.mark.parametrize("sure", [True, False])
async def test_a_policy_gets_the_type_it_asked_for_on_every_instance(sure: bool) -> None:
    observations: list[Any] = []

    def instance() -> Bridge:
        registry = make_registry(Sure())
        register_collect(registry, observations)
        return make_bridge(registry, keys=[KEY])

    async with serve_client(instance()) as first_client, serve_client(instance()) as second_client:
        call = first_client.start_call("collect")
        await call.get_questions()
        call = call.continue_on(second_client)
        if not sure:
            assert get_code(await call.get_result({"sure": accept(value=False)})) == "approval_declined"
            return
        await call.get_questions({"sure": accept(value=True)})
        for client, name in ((first_client, "Ada"), (second_client, "Bob")):
            call = call.continue_on(client)
            await call.get_questions({"name": accept(name=name)})
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
