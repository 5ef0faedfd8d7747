"""Handlers that return required input, and are called again with the answers and their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._engine.authoring import prompt, resource, tool
from mcp_bridge.questions import NeedsInput, Roots, Sampling
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, HANDSHAKE, STATELESS
from tests.kits.questions.asking_kit import NAME_SCHEMA, accept, get_code, get_text, list_names, serve_client
from tests.kits.questions.asking_tools import WHO, register_collect
from tests.kits.questions.simulated_users import Model, SimulatedUser, folders


@dataclass
class Order:
    """An order."""

    dish: str
    seats: int = 2


@EVERY_ERA
async def test_a_handler_is_called_again_with_the_last_answers_and_its_state(mode: str) -> None:
    registry, observations = ToolRegistry(), []
    register_collect(registry, observations)
    user = SimulatedUser({"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("collect", {})) == "Ada Bob Cyd"
    assert observations == [
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

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser({"name": "Ada"})) as client:
        assert (await client.get_prompt("greeting", {})).messages[0].content.text == "Hello Ada"
        for uri in ("test://page", "test://pages/7"):
            assert (await client.read_resource(uri)).contents[0].text == "Hello Ada"


@EVERY_ERA
async def test_a_nested_call_may_need_input_while_the_outer_one_waits(mode: str) -> None:
    registry, runs = ToolRegistry(), []
    register_collect(registry, [])

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> str:
        """Calls the other."""
        runs.append(ctx.state)
        result = await ctx.invoke("collect")
        # The answers and the state belonged to the other call.
        assert (ctx.state, dict(ctx.answers)) == (None, {})
        return f"outer got {result.output}"

    user = SimulatedUser({"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("outer", {})) == "outer got Ada Bob Cyd"
    assert runs == [None]


@pytest.mark.parametrize(("mode", "action"), [("legacy", "decline"), (STATELESS, "cancel")])
async def test_a_handler_gets_the_decline_of_the_user_as_an_answer(mode: str, action: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def ask(ctx: CallContext) -> Any:
        """Asks."""
        return ctx.answers["name"].action if ctx.answers else NeedsInput({"name": WHO})

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(action)) as client:
        assert get_text(await client.call_tool("ask", {})) == action


@EVERY_ERA
async def test_the_answers_are_plain_data_checked_against_the_type(mode: str) -> None:
    registry, observations = ToolRegistry(), []

    @tool(registry=registry)
    def order(ctx: CallContext) -> Any:
        """Orders."""
        if not ctx.answers:
            return NeedsInput({"order": Form("What?", Order)})
        observations.append((ctx.answers["order"].content, ctx.answers["order"].data))
        return "ordered"

    user = SimulatedUser({"seats": 3}, {"dish": "soup", "seats": 3})
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("order", {})) == "ordered"
    assert observations == [({"dish": "soup", "seats": 3}, {"dish": "soup", "seats": 3})]
    assert "$.dish" in user.questions[1].message


async def test_a_needs_input_for_a_client_that_cannot_ask_is_an_error_with_the_capability() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def ask(ctx: CallContext) -> Any:
        """Asks."""
        return NeedsInput({"model": Sampling("Hi")})

    for capabilities in ({}, {"elicitation": {}}):
        async with serve_client(registry, capabilities=capabilities) as client:
            error = await client.start_call("ask").get_error()
            assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    async with serve_client(registry, version=HANDSHAKE, capabilities={}) as client:
        answer = await client.request("tools/call", {"name": "ask", "arguments": {}})
        assert get_code(answer["result"]) == "missing_capability"


async def test_an_answer_that_precedes_its_question_is_used_once() -> None:
    registry, observations = ToolRegistry(), []
    register_collect(registry, observations)
    async with serve_client(registry) as client:
        call = client.start_call("collect")
        # The first request already has an answer.
        assert list_names(await call.get_questions({"name": accept(name="Ada")})) == ["name"]
        await call.get_questions({"name": accept(name="Bob")})
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"


@EVERY_ERA
async def test_a_handler_may_ask_with_ctx_before_it_returns_needs_input(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def both(ctx: CallContext) -> Any:
        """Asks in line, then needs."""
        if not ctx.answers:
            first = (await ctx.ask("First?", NAME_SCHEMA)).content["name"]
            needs: Mapping[str, Any] = {
                "second": Form("Second?", NAME_SCHEMA),
                "roots": Roots(),
                "model": Sampling("Hi"),
            }
            return NeedsInput(needs, {"first": first})
        return f"{ctx.state['first']} {ctx.answers['second'].content['name']} {ctx.answers['model'].text}"

    callbacks: Any = {"list_roots_callback": folders, "sampling_callback": Model("Hello")}
    user = SimulatedUser({"name": "Ada"}, {"name": "Bob"})
    async with connect(registry, mode=mode, elicitation_callback=user, **callbacks) as client:
        assert get_text(await client.call_tool("both", {})) == "Ada Bob Hello"
