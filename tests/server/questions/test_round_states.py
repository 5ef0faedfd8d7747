"""Rejected request states (changed, expired, used before, or of another request), and the log of each."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._engine.authoring import prompt, tool
from mcp_bridge._server.questions import request_state
from tests.client.raw_client import MultiRoundRequest
from tests.kits.questions.asking_kit import (
    INVALID_STATE,
    NAME_SCHEMA,
    accept,
    get_text,
    is_idle,
    make_bridge,
    serve_client,
)

SECRET = "Rumpelstilzchen"
KEY, OTHER_KEY = "a key of forty bytes that is secret......", "another key of forty bytes, also unknown"
ANSWER = {"name": accept(name=SECRET)}


def build_asking_bridge(**options: Any) -> tuple[Bridge, list[str]]:
    """Return a bridge with tools that ask for a name, and the list of received answers."""
    registry, answers = ToolRegistry(), []

    async def ask(ctx: CallContext) -> str:
        answers.append((await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"])
        return "answered"

    @tool(registry=registry)
    async def once(ctx: CallContext, times: int = 1) -> str:
        """Asks."""
        return await ask(ctx)

    @tool(registry=registry)
    async def twice(ctx: CallContext) -> str:
        """Asks twice."""
        await ask(ctx)
        return await ask(ctx)

    @prompt("once", registry=registry)
    async def prompted(ctx: CallContext) -> str:
        """Asks."""
        return await ask(ctx)

    return make_bridge(registry, **{"keys": [KEY], **options}), answers


@pytest.fixture(autouse=True)
def _nothing_of_answers_or_keys_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    written = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    for secret in (SECRET, KEY, OTHER_KEY, "v1."):
        assert secret not in written


def list_changed_states(state: str) -> list[str]:
    """Return copies of a state, each with one change."""
    half = len(state) // 2
    flipped = [
        state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :]
        for place in (3, 8, half, len(state) - 1)
    ]
    return [*flipped, state[:-1], state[:half], f"{state}A", f"{state}=", state[3:], f"v2.{state[3:]}", state.upper()]


async def check_rejection(call: MultiRoundRequest, caplog: pytest.LogCaptureFixture) -> None:
    """Check that this round gets the only error for rejected states, and that the log has the reason."""
    before = len(caplog.records)
    assert await call.get_error(ANSWER) == INVALID_STATE
    new_records = [record for record in caplog.records[before:] if "requestState rejected" in record.getMessage()]
    assert [record.levelname for record in new_records] == ["WARNING"]


async def test_a_changed_request_state_is_rejected_and_the_call_stays_suspended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bridge, answers = build_asking_bridge()
    async with serve_client(bridge) as client:
        call = client.start_call("once")
        await call.get_questions()
        assert call.state is not None
        for state in [
            *list_changed_states(call.state),
            "",
            "x",
            "v1.",
            "v1.AAAA",
            "\ud83d\ude00",
            "null",
            SECRET * 1000,
        ]:
            await check_rejection(client.start_call("once", state=state), caplog)
        assert answers == []
        assert get_text(await call.get_result(ANSWER)) == "answered"
    assert answers == [SECRET]


async def test_a_client_cannot_read_a_request_state() -> None:
    bridge, _ = build_asking_bridge()
    async with serve_client(bridge) as client:
        call = client.start_call("twice")
        await call.get_questions()
        await call.get_questions(ANSWER)
        assert call.state is not None
        body = call.state.removeprefix("v1.")
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        for text in (SECRET, "twice", "handle", "started"):
            assert text.encode() not in raw
            assert text not in call.state


async def test_a_used_request_state_is_always_rejected(caplog: pytest.LogCaptureFixture) -> None:
    bridge, answers = build_asking_bridge()
    async with serve_client(bridge) as client:
        call = client.start_call("twice")
        await call.get_questions()
        first = client.start_call("twice", state=call.state)
        await call.get_questions(ANSWER)
        await check_rejection(first, caplog)
        second = client.start_call("twice", state=call.state)
        assert get_text(await call.get_result(ANSWER)) == "answered"
        for usage in (first, second):
            await check_rejection(usage, caplog)
        assert is_idle(bridge)
    assert answers == [SECRET, SECRET]


async def test_a_state_used_twice_concurrently_is_accepted_once() -> None:
    bridge, answers = build_asking_bridge()
    async with serve_client(bridge) as client:
        call = client.start_call("once")
        await call.get_questions()
        messages = [await call.send(ANSWER) for _ in range(5)]
        responses = [await client.receive_response(number) for number in messages]
        assert [response["error"] for response in responses if "error" in response] == [INVALID_STATE] * 4
        assert [get_text(response["result"]) for response in responses if "result" in response] == ["answered"]
    assert answers == [SECRET]


async def test_a_state_is_accepted_once_although_the_store_is_slow() -> None:
    class Slow:
        """A store with a delay."""

        def __init__(self) -> None:
            self.kept: set[str] = set()

        async def add(self, key: str, value: bytes, ttl: float) -> bool:
            new = key not in self.kept
            self.kept.add(key)
            await anyio.lowlevel.checkpoint()
            return new

    bridge, answers = build_asking_bridge(store=Slow())
    async with serve_client(bridge) as client:
        call = client.start_call("once")
        await call.get_questions()
        messages = [await call.send(ANSWER) for _ in range(3)]
        responses = [await client.receive_response(number) for number in messages]
        assert sorted("result" in response for response in responses) == [False, False, True]
    assert answers == [SECRET]


async def test_a_request_state_is_rejected_for_any_other_request(caplog: pytest.LogCaptureFixture) -> None:
    bridge, answers = build_asking_bridge()
    async with serve_client(bridge) as client:
        call = client.start_call("once")
        await call.get_questions()
        await check_rejection(client.start_call("twice", state=call.state), caplog)
        await check_rejection(client.start_call("once", {"times": 2}, state=call.state), caplog)
        prompted = client.start_request("prompts/get", name="once")
        prompted.state = call.state
        await check_rejection(prompted, caplog)
        assert answers == []
        assert get_text(await call.get_result(ANSWER)) == "answered"


@pytest.mark.parametrize("options", [{"keys": [OTHER_KEY]}, {"keys": []}, {"name": "another"}], ids=str)
async def test_a_request_state_of_another_server_is_rejected(options: Any, caplog: pytest.LogCaptureFixture) -> None:
    bridge, answers = build_asking_bridge()
    other_bridge, other_answers = build_asking_bridge(**options)
    async with serve_client(bridge) as client, serve_client(other_bridge) as elsewhere:
        call = client.start_call("once")
        await call.get_questions()
        await check_rejection(call.continue_on(elsewhere), caplog)
        assert get_text(await call.get_result(ANSWER)) == "answered"
    assert (answers, other_answers) == ([SECRET], [])


async def test_without_keys_each_server_seals_with_a_generated_key(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        serve_client(build_asking_bridge(keys=[])[0]) as client,
        serve_client(build_asking_bridge(keys=[])[0]) as elsewhere,
    ):
        call = client.start_call("once")
        await call.get_questions()
        await check_rejection(call.continue_on(elsewhere), caplog)
        assert get_text(await call.get_result(ANSWER)) == "answered"


async def test_a_request_state_is_rejected_after_its_ttl(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = 0.0
    monkeypatch.setattr(request_state, "time", SimpleNamespace(time=lambda: time.time() + later))
    bridge, _ = build_asking_bridge(ttl=100.0)
    async with serve_client(bridge) as client:
        call = client.start_call("once")
        await call.get_questions()
        later = 101.0
        await check_rejection(call, caplog)
        later = 90.0
        assert get_text(await call.get_result(ANSWER)) == "answered"


@pytest.mark.parametrize("state", [7, ["x"], {"v": 1}, True])
async def test_a_request_state_that_is_not_text_is_an_error(state: Any) -> None:
    bridge, answers = build_asking_bridge()
    async with serve_client(bridge) as client:
        assert (await client.start_call("once", state=state).get_error(ANSWER))["code"] == -32602
    assert answers == []


async def test_a_tool_that_never_asks_accepts_no_request_state(caplog: pytest.LogCaptureFixture) -> None:
    bridge, _ = build_asking_bridge()

    @tool(registry=bridge.registry)
    def silent() -> str:
        """Asks nothing."""
        return "done"

    async with serve_client(bridge) as client:
        assert get_text(await client.start_call("silent").get_result(ANSWER)) == "done"
        await check_rejection(client.start_call("silent", state="v1.made-up"), caplog)
