"""Where a question may come from: tools, prompts, resources, threads, calls made by calls, and policy."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import CallContext, Form, ToolCall, ToolRegistry, ToolResult
from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.authoring import prompt, resource, tool
from mcp_bridge.middleware import Stage
from mcp_bridge.questions import Roots, Sampling
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import NAME_SCHEMA, get_code, get_text, make_registry, serve_client
from tests.kits.questions.simulated_users import Model, SimulatedUser, folders


class Approval:
    """Asks a user before a tool runs."""

    stage = Stage.DECIDE

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        if not await ctx.ask(f"Run {call.name}?", key="approve"):
            raise ApprovalDeclined(f"The user declined {call.name}.")
        result: ToolResult = await call_next(call, ctx)
        return result


def build_asking_registry() -> ToolRegistry:
    """Return a registry with a prompt, a resource and a template that ask for a name, a model and roots."""
    registry = ToolRegistry()

    async def three(ctx: CallContext) -> str:
        got = await ctx.put({"name": Form("Who?", NAME_SCHEMA), "model": Sampling("Hi"), "roots": Roots()})
        return f"{got['name'].content['name']} {got['model'].text} {got['roots'][0].uri}"

    @prompt(registry=registry)
    async def greeting(ctx: CallContext, tone: str = "plain") -> str:
        """Greets."""
        return f"{tone} {await three(ctx)}"

    @resource("test://page", registry=registry)
    async def page(ctx: CallContext) -> str:
        """A page."""
        return await three(ctx)

    @resource("test://pages/{number}", registry=registry)
    async def numbered(number: int, ctx: CallContext) -> str:
        """A page of many."""
        return f"{number} {await three(ctx)}"

    return registry


@EVERY_ERA
async def test_prompts_and_resources_ask_as_tools_do(mode: str) -> None:
    callbacks: Any = {
        "elicitation_callback": SimulatedUser({"name": "Ada"}),
        "sampling_callback": Model("Hello"),
        "list_roots_callback": folders,
    }
    async with connect(build_asking_registry(), mode=mode, **callbacks) as client:
        greeting = await client.get_prompt("greeting", {"tone": "warm"})
        assert greeting.messages[0].content.text == "warm Ada Hello file:///a"
        for uri, text in (("test://page", ""), ("test://pages/7", "7 ")):
            (content,) = (await client.read_resource(uri)).contents
            assert content.text == f"{text}Ada Hello file:///a"


@EVERY_ERA
async def test_a_prompt_or_resource_that_asks_fails_if_the_client_cannot_ask(mode: str) -> None:
    code = -32603 if mode == "legacy" else -32021
    async with connect(
        build_asking_registry(), mode=mode, elicitation_callback=SimulatedUser({"name": "Ada"})
    ) as client:
        for request in (client.get_prompt("greeting", {}), client.read_resource("test://page")):
            with pytest.raises(MCPError) as rejection:
                await request
            assert rejection.value.error.code == code
            if mode == "legacy":
                assert rejection.value.error.data["code"] == "missing_capability"
            else:
                assert rejection.value.error.data["requiredCapabilities"] == {"sampling": {}, "roots": {}}


@EVERY_ERA
async def test_an_answer_that_never_fits_ends_a_prompt_with_its_code(mode: str) -> None:
    callbacks: Any = {
        "elicitation_callback": SimulatedUser({}),
        "sampling_callback": Model(),
        "list_roots_callback": folders,
    }
    async with connect(build_asking_registry(), mode=mode, **callbacks) as client:
        with pytest.raises(MCPError) as ends:
            await client.get_prompt("greeting", {})
        assert ends.value.error.data["code"] == "invalid_answer"


@BOTH_LOOPS
@EVERY_ERA
async def test_a_synchronous_tool_asks_from_its_thread(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    def ask(ctx: CallContext) -> str:
        """Asks."""
        first = anyio.from_thread.run(ctx.ask, "How many?", int)
        second = anyio.from_thread.run(ctx.ask, "And now?", int)
        return f"{first.data + second.data}"

    user = SimulatedUser({"value": 3}, {"value": 4})
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("ask", {})) == "7"
    assert [question.message for question in user.questions] == ["How many?", "And now?"]


@EVERY_ERA
async def test_a_nested_call_asks_the_user_and_receives_the_answer(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def inner(ctx: CallContext) -> str:
        """Asks."""
        return str((await ctx.ask("Who, inside?", NAME_SCHEMA)).content["name"])

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> str:
        """Asks before and after."""
        before = (await ctx.ask("Who, before?", NAME_SCHEMA)).content["name"]
        inside = (await ctx.invoke("inner")).output
        after = (await ctx.ask("Who, after?", NAME_SCHEMA)).content["name"]
        return f"{before} {inside} {after}"

    user = SimulatedUser({"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("outer", {})) == "Ada Bob Cyd"


@EVERY_ERA
async def test_a_failed_question_in_a_nested_call_is_its_result(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def inner(ctx: CallContext) -> str:
        """Asks."""
        return (await ctx.sample("Hi")).text

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> str:
        """Does without."""
        result = await ctx.invoke("inner")
        return f"without: {result.code}"

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser()) as client:
        assert get_text(await client.call_tool("outer", {})) == "without: missing_capability"


def build_approved_registry() -> tuple[ToolRegistry, list[str]]:
    """Return a registry with a tool behind an approval, and the list of its runs."""
    registry, outcome = make_registry(Approval()), []

    @tool(registry=registry)
    def remove(name: str) -> str:
        """Removes."""
        outcome.append(name)
        return "removed"

    return registry, outcome


@pytest.mark.parametrize(
    ("mode", "action"), [("legacy", "accept"), *((STATELESS, action) for action in ("accept", "decline", "cancel"))]
)
async def test_a_policy_asks_before_the_tool_runs(mode: str, action: str) -> None:
    registry, outcome = build_approved_registry()
    user = SimulatedUser(action)
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("remove", {"name": "all"})
    assert [question.message for question in user.questions] == ["Run remove?"]
    if action == "accept":
        assert (get_text(result), outcome) == ("removed", ["all"])
    else:
        assert (get_code(result), outcome) == ("approval_declined", [])


@EVERY_ERA
async def test_no_approval_is_requested_for_invalid_arguments(mode: str) -> None:
    registry, outcome = build_approved_registry()
    user = SimulatedUser("accept")
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_code(await client.call_tool("remove", {"name": 3})) == "invalid_arguments"
    assert (user.questions, outcome) == ([], [])


async def test_a_policy_that_cannot_ask_keeps_the_tool_from_running() -> None:
    registry, outcome = build_approved_registry()
    async with connect(registry, mode="legacy") as client:
        assert get_code(await client.call_tool("remove", {"name": "all"})) == "missing_capability"
    async with serve_client(registry, capabilities={}) as talk:
        error = await talk.start_call("remove", {"name": "all"}).get_error()
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"elicitation": {"form": {}}}})
    assert outcome == []


async def test_a_call_without_a_server_cannot_ask() -> None:
    registry = build_asking_registry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        return str((await ctx.ask("Who?", NAME_SCHEMA, fallback=None)) or "no answer")

    @tool(registry=registry)
    async def must(ctx: CallContext) -> str:
        """Has to ask."""
        return (await ctx.ask("Who?", NAME_SCHEMA)).action

    assert (await registry.ainvoke("ask", {})).data == "no answer"
    assert "elicitation" in (await registry.ainvoke("must", {})).message
    result = await registry.dispatch(ToolCall(id="1", name="must", arguments={}), RunningCall())
    assert result.code == "missing_capability"
