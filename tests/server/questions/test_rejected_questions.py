"""Clients without support for a question, and clients that answer a question with an error."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge.errors import MissingCapability
from mcp_bridge.questions import Link, Roots, Sampling
from mcp_bridge.testing import connect
from tests.kits.constants import HANDSHAKE, STATELESS
from tests.kits.questions.asking_kit import ALL_CAPABILITIES, accept, get_code, get_text, serve_client
from tests.kits.questions.simulated_users import SimulatedUser

FORM, URL, SAMPLE = {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}, {"sampling": {}}
TOOLS, CONTEXT, ROOTS = {"sampling": {"tools": {}}}, {"sampling": {"context": {}}}, {"roots": {}}
TOOL: Any = {"name": "add", "inputSchema": {"type": "object"}}


async def put_question(ctx: CallContext, question: str, **options: Any) -> Any:
    """Put a question of this kind."""
    match question:
        case "form":
            return await ctx.ask("Please.", **options)
        case "page":
            return await ctx.ask("Please.", url="https://example.com/", **options)
        case "model":
            return await ctx.sample("Hi", **options)
        case "tools":
            return await ctx.sample("Hi", tools=[TOOL], **options)
        case "choice":
            return await ctx.sample("Hi", tool_choice={"mode": "none"}, **options)
        case "context":
            return await ctx.sample("Hi", include_context="allServers", **options)
        case "no context":
            return await ctx.sample("Hi", include_context="none", **options)
    return await ctx.roots(**options)


def build_asking_registry() -> ToolRegistry:
    """Return a registry with tools that ask, with and without a fallback."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(kind: str, ctx: CallContext) -> str:
        """Asks."""
        return type(await put_question(ctx, kind)).__name__

    @tool(registry=registry)
    async def fall_back(kind: str, ctx: CallContext) -> str:
        """Asks, or does without."""
        return str(await put_question(ctx, kind, fallback="nothing"))

    @tool(registry=registry)
    async def catch(kind: str, ctx: CallContext) -> str:
        """Asks, or names the missing capability."""
        try:
            return type(await put_question(ctx, kind)).__name__
        except MissingCapability as error:
            return f"missing {error.required}"

    return registry


LACKING = pytest.mark.parametrize(
    ("kind", "declared", "required"),
    [
        ("form", {}, FORM),
        ("form", {"sampling": {}, "roots": {}}, FORM),
        ("form", {"elicitation": {"url": {}}}, FORM),
        ("page", {}, URL),
        ("page", {"elicitation": {}}, URL),
        ("page", {"elicitation": {"form": {}}}, URL),
        ("model", {"elicitation": {}}, SAMPLE),
        ("tools", {"sampling": {}}, TOOLS),
        ("choice", {"sampling": {"context": {}}}, TOOLS),
        ("context", {"sampling": {"tools": {}}}, CONTEXT),
        ("roots", {"elicitation": {}, "sampling": {}}, ROOTS),
    ],
)


@LACKING
async def test_without_the_capability_a_stateless_call_is_an_error_that_names_it(
    kind: str, declared: Any, required: Any
) -> None:
    async with serve_client(build_asking_registry(), capabilities=declared) as client:
        error = await client.start_call("ask", {"kind": kind}).get_error()
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": required})
        for name, text in (("fall_back", "nothing"), ("catch", f"missing {required}")):
            assert get_text(await client.start_call(name, {"kind": kind}).get_result()) == text


@pytest.mark.parametrize(
    ("question", "capabilities", "required"),
    [
        ("form", {"sampling": {}, "roots": {}}, FORM),
        ("page", {"elicitation": {"form": {}}}, URL),
        ("tools", {"sampling": {}}, TOOLS),
        ("roots", {"elicitation": {}, "sampling": {}}, ROOTS),
    ],
)
async def test_without_the_capability_a_handshake_call_fails_with_its_code(
    question: str, capabilities: Any, required: Any
) -> None:
    async with serve_client(build_asking_registry(), version=HANDSHAKE, capabilities=capabilities) as client:
        result = (await client.request("tools/call", {"name": "ask", "arguments": {"kind": question}}))["result"]
        assert get_code(result) == "missing_capability"
        (name,), (parts,) = required, required.values()
        assert ".".join([name, *parts]) in get_text(result)
        for tool_name, text in (("fall_back", "nothing"), ("catch", f"missing {required}")):
            answer = await client.request("tools/call", {"name": tool_name, "arguments": {"kind": question}})
            assert get_text(answer["result"]) == text
        # The server has sent no request.
        assert not [message for message in client.received if "method" in message]


@pytest.mark.parametrize(
    ("question", "capabilities"),
    [
        ("form", {"elicitation": {}}),
        ("form", {"elicitation": {"form": {}}}),
        ("page", {"elicitation": {"url": {}}}),
        ("tools", {"sampling": {"tools": {}}}),
        ("no context", {"sampling": {}}),
        ("roots", {"roots": {"listChanged": True}}),
    ],
)
async def test_with_the_capability_the_question_is_sent(question: str, capabilities: Any) -> None:
    async with serve_client(build_asking_registry(), capabilities=capabilities) as client:
        assert len(await client.start_call("fall_back", {"kind": question}).get_questions()) == 1
    async with serve_client(build_asking_registry(), version=HANDSHAKE, capabilities=capabilities) as client:
        number = await client.send_request("tools/call", {"name": "fall_back", "arguments": {"kind": question}})
        await client.receive_request()
        await client.cancel(number)


async def test_the_error_lists_the_missing_capabilities_of_all_questions() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks everything."""
        forms = {"page": Link("Open.", "https://example.com/"), "form": Form("Well?")}
        await ctx.put({**forms, "tools": Sampling("Hi", tools=[TOOL]), "model": Sampling("Hi"), "roots": Roots()})

    for declaration, missing in (
        ({}, {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}),
        ({"elicitation": {"url": {}}, "roots": {}}, {"elicitation": {"form": {}}, "sampling": {"tools": {}}}),
        ({"elicitation": {}, "sampling": {}}, {**URL, **TOOLS, **ROOTS}),
    ):
        async with serve_client(registry, capabilities=declaration) as client:
            error = await client.start_call("ask").get_error()
            assert error["data"] == {"requiredCapabilities": missing}


async def test_each_round_declares_the_capabilities_of_its_client_again() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks twice."""
        await ctx.ask("Well?", key="form")
        return (await ctx.ask("Open.", url="https://example.com/", key="page")).action

    async with serve_client(registry, capabilities={"elicitation": {}}) as client:
        grown = client.start_call("ask")
        await grown.get_questions()
        shrunk = client.start_call("ask")
        await shrunk.get_questions()
        assert (await shrunk.get_error({"form": accept()}))["data"] == {"requiredCapabilities": URL}
        client.capabilities = {"elicitation": {"form": {}, "url": {}}}
        assert list(await grown.get_questions({"form": accept()})) == ["page"]


@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_a_decline_of_the_user_is_not_replaced_by_a_fallback(mode: str) -> None:
    async with connect(build_asking_registry(), mode=mode, elicitation_callback=SimulatedUser("decline")) as client:
        assert get_text(await client.call_tool("fall_back", {"kind": "form"})).startswith("Answer(action='decline'")


@pytest.mark.parametrize(
    ("question", "code", "expected"),
    [
        ("form", -1, "approval_declined"),
        ("form", -32603, "tool_unavailable"),
        ("page", -32601, "tool_unavailable"),
        ("model", -1, "approval_declined"),
        ("roots", -32603, "tool_unavailable"),
    ],
)
async def test_a_handshake_client_that_answers_with_an_error_ends_the_call_with_a_code(
    question: str, code: int, expected: str
) -> None:
    async with serve_client(build_asking_registry(), version=HANDSHAKE) as client:
        for name in ("ask", "fall_back"):
            number = await client.send_request("tools/call", {"name": name, "arguments": {"kind": question}})
            await client.respond(await client.receive_request(), error={"code": code, "message": "not today"})
            result = (await client.receive_response(number))["result"]
            assert get_code(result) == expected
            assert "not today" in get_text(result)


async def test_a_tool_may_continue_after_a_decline() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks twice."""
        try:
            await ctx.sample("Hi")
        except Exception as error:
            return f"{type(error).__name__}, and then {(await ctx.ask('Really?')).action}"
        return "sampled"

    async def reject(context: Any, params: Any) -> types.ErrorData:
        return types.ErrorData(code=-1, message="User rejected sampling request")

    callbacks: Any = {"sampling_callback": reject, "elicitation_callback": SimulatedUser("cancel")}
    async with connect(registry, mode="legacy", **callbacks) as client:
        assert get_text(await client.call_tool("ask", {})) == "ApprovalDeclined, and then cancel"


@pytest.mark.parametrize("reply", [{}, {"action": "perhaps"}, {"action": "accept", "content": "yes"}, {"roots": 3}])
async def test_a_handshake_client_that_answers_nonsense_is_asked_three_times(reply: Any) -> None:
    async with serve_client(build_asking_registry(), version=HANDSHAKE, capabilities=ALL_CAPABILITIES) as client:
        number = await client.send_request("tools/call", {"name": "ask", "arguments": {"kind": "form"}})
        for _ in range(3):
            await client.respond(await client.receive_request(), result=reply)
        assert get_code((await client.receive_response(number))["result"]) == "invalid_answer"
