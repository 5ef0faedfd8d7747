"""Any answers or states of a client lead to a result, a question or an error, and do not affect the next call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._engine.authoring import tool
from mcp_bridge._server.questions.requests import AnswerMismatch, to_request
from mcp_bridge.questions import Link, NeedsInput, Roots, Sampling
from tests.client.raw_client import Json
from tests.client.stdio_client import StdioClient, encode_line
from tests.kits.questions.asking_kit import (
    ALL_CAPABILITIES,
    NAME_SCHEMA,
    accept,
    get_text,
    is_idle,
    make_bridge,
    make_sampling_result,
    serve_client,
)

FUZZ = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
QUESTIONS: dict[str, Any] = {
    "form": Form("Who?", NAME_SCHEMA),
    "typed": Form("When?", int),
    "page": Link("Open.", "https://example.com/"),
    "model": Sampling("Hi"),
    "roots": Roots(),
}
GOOD: Json = {
    "form": accept(name="Ada"),
    "typed": accept(value=7),
    "page": {"action": "accept"},
    "model": make_sampling_result("Hello"),
    "roots": {"roots": [{"uri": "file:///a", "name": "A"}]},
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
words = st.sampled_from(
    ["action", "content", "accept", "role", "model", "roots", "uri", "name", "value", "type", "text"]
)
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(), inner, max_size=4),
    max_leaves=12,
)
nearly = st.one_of(
    anything,
    st.sampled_from(list(GOOD.values())),
    st.fixed_dictionaries(
        {"action": st.sampled_from(["accept", "decline", "cancel"]) | anything}, optional={"content": anything}
    ),
    st.fixed_dictionaries({"role": words, "content": anything, "model": words | anything}),
    st.fixed_dictionaries({"roots": st.lists(anything, max_size=3)}),
)
responses = st.dictionaries(st.sampled_from([*QUESTIONS, "q1", ""]) | st.text(), nearly, max_size=6) | anything


@dataclass
class Server:
    """A server in a separate event loop, for synchronous tests."""

    portal: BlockingPortal
    bridge: Bridge
    client: StdioClient

    def go(self, state: Any, answers: Any, name: str = "ask") -> Json:
        """One round; it must end as rounds may end."""
        answer: Json = self.portal.call(self._go, state, answers, name)
        if "error" in answer:
            assert answer["error"]["code"] in (-32602, -32600, -32700), answer
        else:
            assert answer["result"]["resultType"] in ("complete", "input_required")
        return answer

    async def _go(self, state: Any, answers: Any, name: str) -> Json:
        number = await self.client.start_call(name, state=state).send(answers)
        # The response to a message that cannot be parsed, such as an endless number, has no id.
        return await self.client.receive(lambda message: message.get("id") in (number, None))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with a tool that asks all kinds of questions in line, and one that returns them."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put(QUESTIONS)
        return " ".join(type(answer).__name__ for answer in got.values())

    @tool(registry=registry)
    def need(ctx: CallContext) -> Any:
        """Needs."""
        return NeedsInput(QUESTIONS) if not ctx.answers else "done"

    bridge = make_bridge(registry, suspended=100_000)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve_client(bridge, capabilities=ALL_CAPABILITIES)) as client,
    ):
        yield Server(portal, bridge, client)


@pytest.mark.parametrize("name", ["ask", "need"])
@FUZZ
@given(answers=st.lists(responses, min_size=1, max_size=4))
def test_any_answers_lead_to_a_result_a_question_or_an_error(server: Server, name: str, answers: list[Any]) -> None:
    state = None
    for given_now in (None, *answers):
        result = server.go(state, given_now, name).get("result")
        # The answer was rejected before the state was used, so the state is still valid.
        if result is None:
            continue
        if result["resultType"] == "complete":
            return
        state = result["requestState"]
        assert set(result["inputRequests"]) <= set(QUESTIONS)
    last = server.go(state, GOOD, name)["result"]
    assert last["resultType"] == "complete"


@FUZZ
@given(answers=responses)
def test_any_unrequested_answers_are_handled(server: Server, answers: Any) -> None:
    first = server.go(None, answers).get("result")
    if first is not None and first["resultType"] == "input_required":
        assert server.go(first["requestState"], GOOD)["result"]["resultType"] == "complete"


@FUZZ
@given(state=st.text(max_size=200) | anything.filter(lambda value: value is not None), answers=responses)
def test_any_invented_request_state_is_rejected(server: Server, state: Any, answers: Any) -> None:
    assert "error" in server.go(state, answers)


@FUZZ
@given(place=st.integers(min_value=0), character=st.characters(), length=st.integers(min_value=0, max_value=2))
def test_any_changed_request_state_is_rejected(server: Server, place: int, character: str, length: int) -> None:
    state = server.go(None, None)["result"]["requestState"]
    place %= len(state) + 1
    new_state = state[:place] + character + state[place + length :]
    answer = server.go(new_state, GOOD)
    assert ("error" in answer) is (new_state != state)
    if new_state != state:
        assert get_text(server.go(state, GOOD)["result"]) == "Answer Answer Answer Sampled tuple"


def test_no_call_is_left_suspended(server: Server) -> None:
    """Check that only unanswered questions remain suspended."""
    questions = server.go(None, None)["result"]
    assert get_text(server.go(questions["requestState"], GOOD)["result"]) == "Answer Answer Answer Sampled tuple"
    calls = server.bridge.endpoint.calls._rounds._suspended
    assert calls._asking <= set(calls._suspended.values())


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@FUZZ
@given(question=st.sampled_from(list(QUESTIONS)), raw=nearly)
def test_any_answer_is_accepted_or_rejected_with_its_problems(version: str, question: str, raw: Any) -> None:
    request = to_request(QUESTIONS[question], version)
    try:
        answer = request.read(raw)
    except AnswerMismatch as error:
        answer = error
    if isinstance(answer, AnswerMismatch):
        assert answer.problems
        assert all(isinstance(line, str) for line in answer.problems)
    else:
        assert type(answer).__name__ in ("Answer", "Sampled", "tuple")


@pytest.mark.parametrize("name", ["ask", "need"])
async def test_answers_that_are_large_or_deep_are_no_worse(name: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        return str(len((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"]))

    @tool(registry=registry)
    async def need(ctx: CallContext) -> Any:
        """Needs."""
        return (
            str(len(ctx.answers["name"].content["name"]))
            if ctx.answers
            else NeedsInput({"name": Form("Who?", NAME_SCHEMA)})
        )

    bridge = make_bridge(registry)
    async with serve_client(bridge) as client:
        call = client.start_call(name)
        await call.get_questions()
        deep = '"DEEP"', "[" * 1000 + "]" * 1000
        for wrong in (accept(name="DEEP"), {**accept(name="Ada"), "more": "DEEP"}):
            params = {"name": name, "arguments": {}, "requestState": call.state}
            params["inputResponses"] = {"name": wrong, "other": wrong}
            request = client.make_request("tools/call", params)
            await client.write(encode_line(request).replace(*(text.encode() for text in deep)))
            answer = await call.receive(request["id"])
            assert "error" in answer or answer["result"]["resultType"] == "input_required"
        assert get_text(await call.get_result({"name": accept(name="x" * 1_000_000)})) == "1000000"
        assert is_idle(bridge)
