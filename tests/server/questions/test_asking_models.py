"""Sampling, roots, and several questions in one round."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge import CallContext, Form, Image, Message, Text, ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge.questions import Root, Roots, Sampled, Sampling
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.questions.asking_kit import (
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    list_names,
    make_sampling_result,
    serve_client,
)
from tests.kits.questions.simulated_users import Model, SimulatedUser, folders

TOOL: Any = {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}
EVERY_SAMPLING = types.SamplingCapability.model_validate({"tools": {}, "context": {}})


async def sample_in_tool(model: Model, mode: str, *messages: Any, **options: Any) -> tuple[list[Sampled], Any]:
    """Sample in a tool; return its samples and the result of the call."""
    registry, got = ToolRegistry(), []

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got.append(await ctx.sample(messages[0] if len(messages) == 1 else messages, **options))
        return got[-1].text

    client_options: Any = {"sampling_callback": model, "sampling_capabilities": EVERY_SAMPLING}
    async with connect(registry, mode=mode, **client_options) as client:
        return got, await client.call_tool("ask", {})


@EVERY_ERA
async def test_sampling_sends_text_as_a_user_message_and_returns_the_model_s_text(mode: str) -> None:
    model = Model("Paris", stopReason="endTurn")
    (got,), result = await sample_in_tool(model, mode, "What is the capital of France?", max_tokens=50)
    assert get_text(result) == "Paris"
    assert got == Sampled(role="assistant", content=(Text("Paris"),), model="m-1", stop_reason="endTurn")
    (request,) = model.questions
    (message,) = request.messages
    assert (message.role, message.content.text, request.max_tokens) == ("user", "What is the capital of France?", 50)


async def test_every_option_of_sampling_reaches_the_client() -> None:
    model = Model()
    options: dict[str, Any] = {
        "system_prompt": "One word.",
        "temperature": 0.25,
        "stop_sequences": ["\n"],
        "model_preferences": {"hints": [{"name": "small"}], "costPriority": 0.5},
        "metadata": {"trace": 1},
        "include_context": "thisServer",
        "tools": [TOOL],
        "tool_choice": {"mode": "required"},
    }
    await sample_in_tool(model, STATELESS, "Hi", **options)
    request = model.questions[0].model_dump(by_alias=True, exclude_none=True)
    assert {key: request[key] for key in ("systemPrompt", "temperature", "stopSequences", "metadata")} == {
        "systemPrompt": "One word.",
        "temperature": 0.25,
        "stopSequences": ["\n"],
        "metadata": {"trace": 1},
    }
    assert request["modelPreferences"] == {"hints": [{"name": "small"}], "costPriority": 0.5}
    assert (request["includeContext"], request["toolChoice"]) == ("thisServer", {"mode": "required"})
    assert request["tools"][0]["name"] == "add"


async def test_a_conversation_keeps_its_roles_and_its_blocks() -> None:
    model = Model()
    raw = {"role": "assistant", "content": {"type": "text", "text": "three"}}
    await sample_in_tool(
        model, STATELESS, "one", Message("two", "assistant"), raw, Message(Image(b"\x89PNG", "image/png"))
    )
    first, second, third, fourth = model.questions[0].messages
    assert [item.role for item in model.questions[0].messages] == ["user", "assistant", "assistant", "user"]
    assert [item.content.text for item in (first, second, third)] == ["one", "two", "three"]
    assert (fourth.content.type, fourth.content.mime_type) == ("image", "image/png")


@EVERY_ERA
async def test_tool_uses_of_the_model_are_returned_in_the_form_of_mcp(mode: str) -> None:
    use = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}
    model = Model(content=[{"type": "text", "text": "Let me see."}, use], stopReason="toolUse")
    (got,), _ = await sample_in_tool(model, mode, "1 and 2?", tools=[TOOL])
    assert got.text == "Let me see."
    assert {key: got.content[1][key] for key in use} == use  # type: ignore[index]
    assert got.stop_reason == "toolUse"


@EVERY_ERA
async def test_roots_are_returned_with_their_names(mode: str) -> None:
    registry, got = ToolRegistry(), []

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks."""
        got.extend(await ctx.roots())

    async with connect(registry, mode=mode, list_roots_callback=folders) as client:
        await client.call_tool("ask", {})
    assert got == [Root(uri="file:///a", name="A"), Root(uri="file:///b")]


@EVERY_ERA
async def test_several_questions_at_once_are_answered_by_their_keys(mode: str) -> None:
    registry, model = ToolRegistry(), Model("Hello")

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put({"name": Form("Who?", NAME_SCHEMA), "model": Sampling("Hi"), "roots": Roots()})
        assert list(got) == ["name", "model", "roots"]
        return f"{got['name'].content['name']} {got['model'].text} {len(got['roots'])}"

    options: Any = {"sampling_callback": model, "list_roots_callback": folders}
    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser({"name": "Ada"}), **options) as client:
        assert get_text(await client.call_tool("ask", {})) == "Ada Hello 2"


@EVERY_ERA
async def test_each_of_several_questions_is_asked_again_separately(mode: str) -> None:
    registry = ToolRegistry()

    async def hasty(params: Any) -> Any:
        fits = "First" in params.message or "was not valid" in params.message
        return types.ElicitResult(action="accept", content={"name": "Ada" if fits else ""})

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put({"first": Form("First?", NAME_SCHEMA), "second": Form("Second?", NAME_SCHEMA)})
        return f"{got['first'].content['name']} {got['second'].content['name']}"

    user = SimulatedUser(hasty)
    async with connect(registry, mode=mode, elicitation_callback=user) as client:
        assert get_text(await client.call_tool("ask", {})) == "Ada Ada"
    assert sorted(question.message[:6] for question in user.questions) == ["First?", "Second", "Second"]


@EVERY_ERA
async def test_an_answer_that_stays_invalid_ends_the_other_questions_of_its_round(mode: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks."""
        await ctx.put({"first": Form("First?", NAME_SCHEMA), "second": Form("Second?", NAME_SCHEMA)})

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser({})) as client:
        assert get_code(await client.call_tool("ask", {})) == "invalid_answer"


@EVERY_ERA
async def test_tasks_of_a_tool_may_ask_concurrently(mode: str) -> None:
    registry, got = ToolRegistry(), {}

    async def echo(params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"name": f"to {params.message}"})

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> None:
        """Asks."""

        async def one(question: str) -> None:
            got[question] = (await ctx.ask(question, NAME_SCHEMA)).content["name"]

        async with anyio.create_task_group() as tasks:
            for question in ("one", "two", "three"):
                tasks.start_soon(one, question)

    async with connect(registry, mode=mode, elicitation_callback=SimulatedUser(echo)) as client:
        await client.call_tool("ask", {})
    assert got == {question: f"to {question}" for question in ("one", "two", "three")}


def build_racing_registry() -> ToolRegistry:
    """Return a registry with a tool that asks concurrent questions under confusable names."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext, keys: list[str]) -> list[str]:
        """Asks."""
        got: dict[int, str] = {}

        async def one(number: int, key: str) -> None:
            got[number] = (await ctx.ask(f"Question {number}", NAME_SCHEMA, key=key or None)).content["name"]

        async with anyio.create_task_group() as tasks:
            for number, key in enumerate(keys):
                tasks.start_soon(one, number, key)
        return [got[number] for number in range(len(keys))]

    return registry


@pytest.mark.parametrize("keys", [["a", "b"], ["a", "a"], ["", ""], ["q2", ""], ["", "q1"], ["q1", "", "q1", "q2", ""]])
async def test_questions_that_are_asked_together_are_sent_in_one_round_under_different_names(keys: list[str]) -> None:
    async with serve_client(build_racing_registry()) as client:
        call = client.start_call("ask", {"keys": keys})
        questions = await call.get_questions()
        assert len(questions) == len(keys)
        for key in set(keys) - {""}:
            assert key in questions
        result = await call.get_result(
            {name: accept(name=item["params"]["message"]) for name, item in questions.items()}
        )
        assert result["structuredContent"] == [f"Question {number}" for number in range(len(keys))]


async def test_an_invalid_conversation_is_asked_again() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put({"model": Sampling("Hi"), "roots": Roots()})
        return f"{got['model'].text} {len(got['roots'])}"

    async with serve_client(registry) as client:
        call = client.start_call("ask")
        questions = await call.get_questions()
        assert questions["roots"] == {"method": "roots/list", "params": {}}
        assert await call.get_questions({"model": {"roots": []}, "roots": make_sampling_result("x")}) == questions
        assert list_names(
            await call.get_questions({"model": make_sampling_result("Hello"), "roots": make_sampling_result("x")})
        ) == ["roots"]
        assert get_text(await call.get_result({"roots": {"roots": [{"uri": "file:///a"}]}})) == "Hello 1"
