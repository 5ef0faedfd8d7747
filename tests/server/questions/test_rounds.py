"""MultiRoundRequest of the stateless era: the content of each round, and the repeated questions."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._engine.authoring import prompt, resource, tool
from mcp_bridge.questions import Sampling
from tests.kits.questions.asking_kit import (
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    is_idle,
    list_names,
    make_bridge,
    make_sampling_result,
    serve_client,
)
from tests.kits.waiting import wait_for_event

FORM = {"mode": "form", "message": "Who?", "requestedSchema": NAME_SCHEMA}


def build_asking_registry() -> tuple[ToolRegistry, list[str]]:
    """Return a registry with tools that ask in several ways, and a line for each of their runs."""
    registry, runs = ToolRegistry(), []

    @tool(registry=registry)
    async def one(ctx: CallContext) -> str:
        """Asks one thing."""
        runs.append("one")
        return str((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"])

    @tool(registry=registry)
    async def three(ctx: CallContext) -> str:
        """Asks three things after each other."""
        runs.append("three")
        got = [
            (await ctx.ask(f"Who is number {number}?", NAME_SCHEMA, key="name")).content["name"] for number in (1, 2, 3)
        ]
        return " ".join(got)

    @tool(registry=registry)
    async def both(ctx: CallContext) -> str:
        """Asks two things at once."""
        runs.append("both")
        got = await ctx.put({"a": Form("A?", NAME_SCHEMA), "b": Form("B?", NAME_SCHEMA)})
        return f"{got['a'].content['name']} {got['b'].content['name']}"

    @tool(registry=registry)
    async def nameless(ctx: CallContext) -> str:
        """Asks under no name of its own."""
        runs.append("nameless")
        return str((await ctx.ask("Who?", NAME_SCHEMA)).content["name"])

    return registry, runs


async def test_a_question_is_the_result_of_its_round_and_the_answer_resumes_the_tool() -> None:
    registry, runs = build_asking_registry()
    async with serve_client(registry) as client:
        call = client.start_call("one")
        answer = await call.exchange()
        assert answer["result"]["inputRequests"] == {"name": {"method": "elicitation/create", "params": FORM}}
        assert answer["result"].keys() <= {"resultType", "inputRequests", "requestState", "_meta"}
        result = await call.get_result({"name": accept(name="Ada")})
        assert (get_text(result), result.get("isError", False)) == ("Ada", False)
    assert runs == ["one"]


async def test_every_round_has_another_state_and_the_tool_runs_once() -> None:
    registry, runs = build_asking_registry()
    async with serve_client(registry) as client:
        call, states = client.start_call("three"), set()
        questions = await call.get_questions()
        for number, name in ((1, "Ada"), (2, "Bob"), (3, "Cyd")):
            assert questions["name"]["params"]["message"] == f"Who is number {number}?"
            states.add(call.state)
            questions = (await call.get_questions({"name": accept(name=name)})) if number < 3 else {}
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert len(states) == 3
    assert runs == ["three"]


@pytest.mark.parametrize("responses", [None, {}, {"other": accept(name="Eve")}, {"q1": accept(name="Eve")}])
async def test_an_unanswered_question_is_asked_again_with_a_new_state(responses: Any) -> None:
    registry, runs = build_asking_registry()
    async with serve_client(registry) as client:
        call = client.start_call("one")
        first, old = await call.get_questions(), call.state
        assert await call.get_questions(responses) == first
        assert call.state != old
        assert get_text(await call.get_result({"name": accept(name="Ada"), "other": accept(name="Eve")})) == "Ada"
    assert runs == ["one"]


async def test_valid_answers_are_kept_and_only_the_missing_one_is_asked_again() -> None:
    registry, _ = build_asking_registry()
    async with serve_client(registry) as client:
        call = client.start_call("both")
        assert list_names(await call.get_questions()) == ["a", "b"]
        assert list_names(await call.get_questions({"b": accept(name="Bob")})) == ["a"]
        # an answer to what is answered already is an extra one
        assert get_text(await call.get_result({"a": accept(name="Ada"), "b": accept(name="Eve")})) == "Ada Bob"


@pytest.mark.parametrize(
    "wrong",
    [
        accept(),
        {"action": "accept"},
        {"action": "accept", "content": {"name": "a"}},
        make_sampling_result("Ada"),
        {"roots": []},
    ],
    ids=str,
)
async def test_three_invalid_answers_end_the_call(wrong: Any) -> None:
    registry, _ = build_asking_registry()
    bridge = make_bridge(registry)
    async with serve_client(bridge) as client:
        call = client.start_call("one")
        await call.get_questions()
        await call.get_questions({"name": wrong})
        # A missing answer is not a wrong answer.
        await call.get_questions()
        await call.get_questions({"name": wrong})
        result = await call.get_result({"name": wrong})
        assert get_code(result) == "invalid_answer"
        assert is_idle(bridge)


async def test_each_question_has_three_separate_tries() -> None:
    registry, _ = build_asking_registry()
    async with serve_client(registry) as client:
        call = client.start_call("three")
        await call.get_questions()
        for name in ("Ada", "Bob"):
            await call.get_questions({"name": accept()})
            await call.get_questions({"name": accept()})
            await call.get_questions({"name": accept(name=name)})
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"


async def test_an_unrequested_answer_answers_the_question_with_its_key_once() -> None:
    registry, runs = build_asking_registry()
    async with serve_client(registry) as client:
        assert get_text(await client.start_call("one").get_result({"name": accept(name="Ada")})) == "Ada"
        call = client.start_call("three")
        questions = await call.get_questions({"name": accept(name="Ada")})
        assert questions["name"]["params"]["message"] == "Who is number 2?"
        await call.get_questions({"name": accept(name="Bob")})
        assert get_text(await call.get_result({"name": accept(name="Cyd")})) == "Ada Bob Cyd"
    assert runs == ["one", "three"]


async def test_an_unrequested_answer_does_not_answer_a_question_without_a_key() -> None:
    registry, _ = build_asking_registry()
    async with serve_client(registry) as client:
        (name,) = await client.start_call("nameless").get_questions()
        for guess in (name, "", "q1"):
            assert list_names(await client.start_call("nameless").get_questions({guess: accept(name="Eve")})) == [name]


async def test_an_invalid_unrequested_answer_leads_to_the_question() -> None:
    registry, runs = build_asking_registry()
    async with serve_client(registry) as client:
        call = client.start_call("one")
        assert list_names(await call.get_questions({"name": accept(name=7)})) == ["name"]
        assert get_text(await call.get_result({"name": accept(name="Ada")})) == "Ada"
    assert runs == ["one"]


async def test_prompts_and_resources_can_ask_in_rounds() -> None:
    registry = ToolRegistry()

    @prompt(registry=registry)
    async def greeting(ctx: CallContext) -> str:
        """Greets."""
        return f"Greet {(await ctx.ask('Who?', NAME_SCHEMA, key='name')).content['name']}"

    @resource("test://page", registry=registry)
    async def page(ctx: CallContext) -> str:
        """A page."""
        return f"Of {(await ctx.ask('Who?', NAME_SCHEMA, key='name')).content['name']}"

    async with serve_client(registry) as client:
        for method, params in (("prompts/get", {"name": "greeting"}), ("resources/read", {"uri": "test://page"})):
            call = client.start_request(method, **params)
            assert await call.get_questions() == {"name": {"method": "elicitation/create", "params": FORM}}
            await call.get_questions({"name": accept()})
            result = await call.get_result({"name": accept(name="Ada")})
            assert "Ada" in str(result.get("messages") or result.get("contents"))


async def test_a_question_that_the_tool_cancels_is_not_asked_again_and_its_result_waits() -> None:
    registry, give_up, withdrawal = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def impatient(ctx: CallContext) -> str:
        """Asks, but not for long."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.ask, "Who?", NAME_SCHEMA)
            await give_up.wait()
            tasks.cancel_scope.cancel()
        withdrawal.set()
        return "went on without"

    bridge = make_bridge(registry)
    async with serve_client(bridge) as client:
        call = client.start_call("impatient")
        (name,) = await call.get_questions()
        give_up.set()
        await wait_for_event(withdrawal)
        await anyio.wait_all_tasks_blocked()
        assert get_text(await call.get_result({name: accept(name="Ada")})) == "went on without"
        assert is_idle(bridge)


async def test_what_ends_a_call_while_it_also_asks_reaches_the_client() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def race(ctx: CallContext) -> str:
        """Takes whichever answer comes first."""
        first: list[str] = []

        async def one(question: str) -> None:
            first.append((await ctx.ask(question, NAME_SCHEMA, key=question)).content["name"])
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for question in ("a", "b"):
                tasks.start_soon(one, question)
        return f"{first[0]} was first"

    async with serve_client(registry) as client:
        call = client.start_call("race")
        assert list_names(await call.get_questions()) == ["a", "b"]
        answer = await call.exchange({"b": accept(name="Bob")})
        # The tool may not have withdrawn the other question yet.
        if answer["result"]["resultType"] == "input_required":
            answer = await call.exchange()
        assert get_text(answer["result"]) == "Bob was first"


async def test_a_question_between_two_rounds_is_sent_with_the_next() -> None:
    registry, on, questions = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def wander(ctx: CallContext) -> str:
        """Asks one thing, and another once something has happened."""
        got: dict[str, Any] = {}

        async def later() -> None:
            await on.wait()
            questions.set()
            got["model"] = await ctx.sample("Hi", key="model")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(later)
            got["name"] = await ctx.ask("Who?", NAME_SCHEMA, key="name")
        return f"{got['name'].content['name']} {got['model'].text}"

    async with serve_client(registry) as client:
        call = client.start_call("wander")
        assert list_names(await call.get_questions()) == ["name"]
        on.set()
        await wait_for_event(questions)
        await anyio.wait_all_tasks_blocked()
        assert list_names(await call.get_questions({"name": accept(name="Ada")})) == ["model"]
        assert get_text(await call.get_result({"model": make_sampling_result("Hello")})) == "Ada Hello"


async def test_calls_that_ask_at_the_same_time_do_not_get_each_others_answers() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def echo(number: int, ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put({"name": Form("Who?", NAME_SCHEMA), "model": Sampling("Hi")})
        return f"{number} {got['name'].content['name']} {got['model'].text}"

    async with serve_client(registry) as client:
        calls = [client.start_call("echo", {"number": number}) for number in range(20)]
        for runs in [(call, await call.send()) for call in calls]:
            await runs[0].receive(runs[1])
        for number, call in reversed(list(enumerate(calls))):
            answers = {"name": accept(name=f"name {number}"), "model": make_sampling_result(f"model {number}")}
            assert get_text(await call.get_result(answers)) == f"{number} name {number} model {number}"
