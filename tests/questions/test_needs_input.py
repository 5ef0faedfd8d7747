"""Handlers that end with what they need, and are called again with the answers and with their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from asking_kit import (
    EVERY_ERA,
    HANDSHAKE,
    NAME,
    STATELESS,
    accept,
    bridge_of,
    code_of,
    governed,
    names,
    said,
    sampled,
    talking,
)
from asking_people import Model, Person, folders

from mcp_bridge import CallContext, Form, Link, NeedsInput, Roots, Sampling, Stage, ToolCall, ToolRegistry, ToolResult
from mcp_bridge.authoring import prompt, resource, tool
from mcp_bridge.bridge import Bridge
from mcp_bridge.contracts.errors import ApprovalDeclined
from mcp_bridge.testing import connect

KEY = "a key of at least thirty-two bytes, shared"
WHO = Form("Who?", NAME)


@dataclass
class Order:
    """What is ordered."""

    dish: str
    seats: int = 2


def collecting(registry: ToolRegistry, seen: list[Any]) -> None:
    """A tool that asks the same thing three times over and keeps all answers; `seen` has what each run was given."""

    @tool(registry=registry)
    def collect(ctx: CallContext) -> Any:
        """Collects."""
        seen.append(({key: answer.content for key, answer in ctx.answers.items()}, ctx.state))
        got = [*(ctx.state or ()), *(answer.content["name"] for answer in ctx.answers.values())]
        return NeedsInput({"name": WHO}, got) if len(got) < 3 else " ".join(got)


@EVERY_ERA
async def test_a_handler_is_called_again_with_the_last_answers_and_its_state(mode: str) -> None:
    registry, seen = ToolRegistry(), []
    collecting(registry, seen)
    person = Person({"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})
    async with connect(registry, mode=mode, elicitation_callback=person) as client:
        assert said(await client.call_tool("collect", {})) == "Ada Bob Cyd"
    assert seen == [
        ({}, None),
        ({"name": {"name": "Ada"}}, []),
        ({"name": {"name": "Bob"}}, ["Ada"]),
        ({"name": {"name": "Cyd"}}, ["Ada", "Bob"]),
    ]


@EVERY_ERA
async def test_prompts_and_resources_may_need_input_too(mode: str) -> None:
    registry = ToolRegistry()

    def greet(ctx: CallContext) -> Any:
        if "name" not in ctx.answers:
            return NeedsInput({"name": WHO}, {"greeting": "Hello"})
        return f"{ctx.state['greeting']} {ctx.answers['name'].content['name']}"

    @prompt(registry=registry)
    def greeting(ctx: CallContext) -> Any:
        """Greets."""
        return greet(ctx)

    @resource("test://page", registry=registry)
    async def page(ctx: CallContext) -> Any:
        """A page."""
        return greet(ctx)

    @resource("test://pages/{number}", registry=registry)
    def numbered(number: int, ctx: CallContext) -> Any:
        """A page of many."""
        return greet(ctx)

    async with connect(registry, mode=mode, elicitation_callback=Person({"name": "Ada"})) as client:
        assert (await client.get_prompt("greeting", {})).messages[0].content.text == "Hello Ada"
        for uri in ("test://page", "test://pages/7"):
            assert (await client.read_resource(uri)).contents[0].text == "Hello Ada"


@EVERY_ERA
async def test_a_tool_that_a_tool_calls_may_need_input_and_the_first_waits(mode: str) -> None:
    registry, begun = ToolRegistry(), []
    collecting(registry, [])

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> str:
        """Calls the other."""
        begun.append(ctx.state)
        result = await ctx.invoke("collect")
        assert (ctx.state, dict(ctx.answers)) == (None, {})  # those were the other's
        return f"outer got {result.output}"

    person = Person({"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})
    async with connect(registry, mode=mode, elicitation_callback=person) as client:
        assert said(await client.call_tool("outer", {})) == "outer got Ada Bob Cyd"
    assert begun == [None]


@EVERY_ERA
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_no_is_an_answer_to_a_handler_too(mode: str, action: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def ask(ctx: CallContext) -> Any:
        """Asks."""
        return ctx.answers["name"].action if ctx.answers else NeedsInput({"name": WHO})

    async with connect(registry, mode=mode, elicitation_callback=Person(action)) as client:
        assert said(await client.call_tool("ask", {})) == action


@EVERY_ERA
async def test_the_answers_are_plain_data_checked_against_the_type(mode: str) -> None:
    registry, seen = ToolRegistry(), []

    @tool(registry=registry)
    def order(ctx: CallContext) -> Any:
        """Orders."""
        if not ctx.answers:
            return NeedsInput({"order": Form("What?", Order)})
        seen.append((ctx.answers["order"].content, ctx.answers["order"].data))
        return "ordered"

    person = Person({"seats": 3}, {"dish": "soup", "seats": 3})
    async with connect(registry, mode=mode, elicitation_callback=person) as client:
        assert said(await client.call_tool("order", {})) == "ordered"
    assert seen == [({"dish": "soup", "seats": 3}, {"dish": "soup", "seats": 3})]
    assert "$.dish" in person.asked[1].message


async def test_what_a_handler_needs_of_a_client_that_cannot_be_asked_is_said() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def ask(ctx: CallContext) -> Any:
        """Asks."""
        return NeedsInput({"model": Sampling("Hi")})

    for capabilities in ({}, {"elicitation": {}}):
        async with talking(registry, capabilities=capabilities) as talk:
            error = await talk.calling("ask").fails()
            assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    async with talking(registry, version=HANDSHAKE, capabilities={}) as talk:
        answer = await talk.get("tools/call", {"name": "ask", "arguments": {}})
        assert code_of(answer["result"]) == "missing_capability"


async def test_answers_that_come_unasked_settle_what_a_handler_needs_once() -> None:
    registry, seen = ToolRegistry(), []
    collecting(registry, seen)
    async with talking(registry) as talk:
        call = talk.calling("collect")
        assert names(await call.asks({"name": accept(name="Ada")})) == ["name"]
        await call.asks({"name": accept(name="Bob")})
        assert said(await call.ends({"name": accept(name="Cyd")})) == "Ada Bob Cyd"


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

    return bridge_of(registry, keys=[KEY])


EVERY_ANSWER = {
    "form": accept(name="Ada"),
    "page": {"action": "accept"},
    "model": sampled("Hello"),
    "roots": {"roots": [{"uri": "file:///a"}]},
}


async def test_each_instance_goes_on_where_another_ended_even_with_the_same_question() -> None:
    seen: list[Any] = []
    first, second = sharing(seen), sharing(seen)
    async with talking(first) as here, talking(second) as there:
        call = here.calling("collect")
        await call.asks()
        for talk, name in ((there, "Ada"), (here, "Bob")):
            call = call.elsewhere(talk)
            await call.asks({"name": accept(name=name)})
        call = call.elsewhere(there)
        assert said(await call.ends({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert [state for _, state in seen] == [None, [], ["Ada"], ["Ada", "Bob"]]


@pytest.mark.parametrize("state", [None, 0, "ünï \ud83d\ude00", [1, [2.5, None]], {"a": {"b": [True]}}], ids=str)
async def test_every_kind_of_question_and_of_state_travels_to_another_instance(state: Any) -> None:
    first, second = sharing([]), sharing([])
    async with talking(first) as here, talking(second) as there:
        call = here.calling("everything", {"state": state})
        asked = await call.asks()
        some = {key: EVERY_ANSWER[key] for key in ("form", "model")}
        call = call.elsewhere(there)
        left = await call.asks(some)
        assert left == {key: asked[key] for key in ("page", "roots")}
        call = call.elsewhere(here)
        rest = {key: EVERY_ANSWER[key] for key in left}
        assert said(await call.ends(rest)) == "Ada accept Hello file:///a"


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
        registry = governed(Approval())
        collecting(registry, seen)
        return bridge_of(registry, keys=[KEY])

    async with talking(instance()) as here, talking(instance()) as there:
        call = here.calling("collect")
        assert names(await call.asks()) == ["approve"]
        call = call.elsewhere(there)
        assert names(await call.asks({"approve": accept()})) == ["name"]
        for talk, name in ((here, "Ada"), (there, "Bob")):
            call = call.elsewhere(talk)
            assert names(await call.asks({"name": accept(name=name)})) == ["name"]
        call = call.elsewhere(here)
        assert said(await call.ends({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
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
        registry = governed(Sure())
        collecting(registry, seen)
        return bridge_of(registry, keys=[KEY])

    async with talking(instance()) as here, talking(instance()) as there:
        call = here.calling("collect")
        await call.asks()
        call = call.elsewhere(there)
        if not sure:
            assert code_of(await call.ends({"sure": accept(value=False)})) == "approval_declined"
            return
        await call.asks({"sure": accept(value=True)})
        for talk, name in ((here, "Ada"), (there, "Bob")):
            call = call.elsewhere(talk)
            await call.asks({"name": accept(name=name)})
        assert said(await call.ends({"name": accept(name="Cyd")})) == "Ada Bob Cyd"


@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_a_handler_may_ask_in_line_before_it_says_what_it_needs(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def both(ctx: CallContext) -> Any:
        """Asks in line, then needs."""
        if not ctx.answers:
            first = (await ctx.ask("First?", NAME)).content["name"]
            needed: Mapping[str, Any] = {"second": Form("Second?", NAME), "roots": Roots(), "model": Sampling("Hi")}
            return NeedsInput(needed, {"first": first})
        return f"{ctx.state['first']} {ctx.answers['second'].content['name']} {ctx.answers['model'].text}"

    callbacks: Any = {"list_roots_callback": folders, "sampling_callback": Model("Hello")}
    person = Person({"name": "Ada"}, {"name": "Bob"})
    async with connect(registry, mode=mode, elicitation_callback=person, **callbacks) as client:
        assert said(await client.call_tool("both", {})) == "Ada Bob Hello"
