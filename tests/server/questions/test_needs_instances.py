"""What a handler needs, on several instances: each goes on where another ended."""

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
from tests.kits.questions.asking_tools import WHO, collecting

KEY = "a key of at least thirty-two bytes, shared"


def sharing(seen: list[Any]) -> Bridge:
    """One of several instances."""
    registry = ToolRegistry()
    collecting(registry, seen)

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
    seen: list[Any] = []
    first, second = sharing(seen), sharing(seen)
    async with serve_client(first) as here, serve_client(second) as there:
        call = here.start_call("collect")
        await call.get_questions()
        for client, name in ((there, "Ada"), (here, "Bob")):
            call = call.continue_on(client)
            await call.get_questions({"name": accept(name=name)})
        call = call.continue_on(there)
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert [state for _, state in seen] == [None, [], ["Ada"], ["Ada", "Bob"]]


@pytest.mark.parametrize("state", [None, 0, "ünï \ud83d\ude00", [1, [2.5, None]], {"a": {"b": [True]}}], ids=str)
async def test_every_kind_of_question_and_of_state_travels_to_another_instance(state: Any) -> None:
    first, second = sharing([]), sharing([])
    async with serve_client(first) as here, serve_client(second) as there:
        call = here.start_call("everything", {"state": state})
        asked = await call.get_questions()
        some = {key: EVERY_ANSWER[key] for key in ("form", "model")}
        call = call.continue_on(there)
        left = await call.get_questions(some)
        assert left == {key: asked[key] for key in ("page", "roots")}
        call = call.continue_on(here)
        rest = {key: EVERY_ANSWER[key] for key in left}
        assert get_text(await call.get_result(rest)) == "Ada accept Hello file:///a"


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
    seen: list[Any] = []

    def instance() -> Bridge:
        registry = make_registry(Approval())
        collecting(registry, seen)
        return make_bridge(registry, keys=[KEY])

    async with serve_client(instance()) as here, serve_client(instance()) as there:
        call = here.start_call("collect")
        assert list_names(await call.get_questions()) == ["approve"]
        call = call.continue_on(there)
        assert list_names(await call.get_questions({"approve": accept()})) == ["name"]
        for client, name in ((here, "Ada"), (there, "Bob")):
            call = call.continue_on(client)
            assert list_names(await call.get_questions({"name": accept(name=name)})) == ["name"]
        call = call.continue_on(here)
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert len(seen) == 4


class Sure:
    """Asks with a type of its own, before a tool runs."""

    stage = Stage.DECIDE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        answer = await ctx.ask("Sure?", bool, key="sure")
        if answer.data is not True:
            raise ApprovalDeclined(f"Not sure: {answer.data}")
        result: ToolResult = await call_next(call, ctx)
        return result


@pytest.mark.parametrize("sure", [True, False])
async def test_a_policy_gets_the_type_it_asked_for_on_every_instance(sure: bool) -> None:
    seen: list[Any] = []

    def instance() -> Bridge:
        registry = make_registry(Sure())
        collecting(registry, seen)
        return make_bridge(registry, keys=[KEY])

    async with serve_client(instance()) as here, serve_client(instance()) as there:
        call = here.start_call("collect")
        await call.get_questions()
        call = call.continue_on(there)
        if not sure:
            assert get_code(await call.get_result({"sure": accept(value=False)})) == "approval_declined"
            return
        await call.get_questions({"sure": accept(value=True)})
        for client, name in ((here, "Ada"), (there, "Bob")):
            call = call.continue_on(client)
            await call.get_questions({"name": accept(name=name)})
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
