"""Approvals in 2026-07-28: any instance with the same keys takes the call up, as long as the tool has not started."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from mcp_bridge._storage.stores.memory import MemoryStore
from tests.client.stdio_client import StdioClient
from tests.kits.constants import TIMEOUT
from tests.kits.hooks.hooks_kit import HookedServer, ask, modify
from tests.kits.questions.asking_kit import (
    INVALID_STATE,
    accept,
    get_code,
    get_text,
    is_idle,
    make_bridge,
    serve_client,
)

KEYS = ("a key of thirty-two bytes or more, for tests",)
ALLOW, DENY = {"q1": accept(value="Allow")}, {"q1": accept(value="Deny")}


def create_server(event: str = "tool:pre", **options: Any) -> HookedServer:
    """Return a server with hooks that change the arguments and ask."""
    server = HookedServer()
    server.on("tool:pre", modify(tool_input={"n": 5}))
    server.on(event, ask(**options))
    return server


@contextlib.asynccontextmanager
async def connect_two(*, store: Any = "memory", event: str = "tool:pre", **options: Any) -> AsyncIterator[Any]:
    """Connect a client to each of two instances of one bridge."""
    houses = create_server(event, **options), create_server(event, **options)
    state = {"store": store} if store != "memory" else {}
    bridges = [make_bridge(server.registry, keys=KEYS, **state) for server in houses]
    async with serve_client(bridges[0]) as client, serve_client(bridges[1]) as other_client:
        yield *houses, client, other_client
    assert all(is_idle(bridge) for bridge in bridges)


async def start_asking_call(client: StdioClient) -> Any:
    """Start a call that asks for an approval."""
    call = client.start_call("add", {"n": 2})
    assert list(await call.get_questions()) == ["q1"]
    return call


async def wait_for_default(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until an approval is decided by default."""
    with anyio.fail_after(TIMEOUT):
        while "by default" not in caplog.text:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.01)


async def test_an_approval_at_one_instance_reaches_another_and_the_changed_call_runs_once() -> None:
    async with connect_two() as (first, second, client, other_client):
        call = await start_asking_call(client)
        assert get_text(await call.continue_on(other_client).get_result(ALLOW)) == '{"sum":6}'
        assert (first.calls, second.calls) == ([], [{"n": 5, "to": 1}])


async def test_a_decline_holds_on_another_instance_too() -> None:
    async with connect_two(approval_default="allow") as (first, second, client, other_client):
        call = await start_asking_call(client)
        assert get_code(await call.continue_on(other_client).get_result(DENY)) == "approval_declined"
        assert first.calls == second.calls == []


async def test_an_approval_is_used_once() -> None:
    store = MemoryStore()
    async with connect_two(store=store) as (first, second, client, other_client):
        call = await start_asking_call(client)
        used, copy = call.continue_on(client), call.continue_on(other_client)
        assert get_text(await call.get_result(ALLOW)) == '{"sum":6}'
        assert await used.get_error(ALLOW) == INVALID_STATE
        assert await copy.get_error(ALLOW) == INVALID_STATE
        assert (len(first.calls), second.calls) == (1, [])


async def test_an_approval_is_valid_for_the_same_arguments_only() -> None:
    async with connect_two() as (first, second, client, other_client):
        call = await start_asking_call(client)
        assert await other_client.start_call("add", {"n": 3}, state=call.state).get_error(ALLOW) == INVALID_STATE
        assert await client.start_call("say", {"text": "x"}, state=call.state).get_error(ALLOW) == INVALID_STATE
        assert first.calls == second.calls == []


async def test_a_question_about_a_result_is_not_resumed_at_another_instance() -> None:
    async with connect_two(event="tool:post") as (first, second, client, other_client):
        call = await start_asking_call(client)
        failure = await call.continue_on(other_client).get_result(ALLOW)
        assert get_code(failure) == "question_expired"
        assert (len(first.calls), second.calls) == (1, [])
        assert get_text(await call.get_result(ALLOW)) == '{"sum":6}'
        assert len(first.calls) == 1


async def test_nothing_runs_by_default_while_another_instance_may_receive_a_decline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connect_two(approval_default="allow", approval_timeout=0.5) as (first, second, client, other_client):
        call = await start_asking_call(client)
        await wait_for_default(caplog)
        assert get_code(await call.continue_on(other_client).get_result(DENY)) == "approval_declined"
        assert first.calls == second.calls == []
        client.close_input()


async def test_a_call_that_is_allowed_by_default_runs_when_its_client_returns(caplog: pytest.LogCaptureFixture) -> None:
    async with connect_two(approval_default="allow", approval_timeout=0.5) as (first, _, client, __):
        call = await start_asking_call(client)
        await wait_for_default(caplog)
        assert first.calls == []
        assert get_text(await call.get_result({})) == '{"sum":6}'
        assert len(first.calls) == 1


async def test_the_default_applies_to_a_late_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with connect_two(approval_default="deny", approval_timeout=0.5) as (first, _, client, __):
        call = await start_asking_call(client)
        await wait_for_default(caplog)
        assert get_code(await call.get_result(ALLOW)) == "approval_declined"
        assert first.calls == []
