"""An explicit answer after `approval_timeout` counts, until the default has had an effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext
from mcp_bridge._engine.authoring import tool
from tests.client.stdio_client import StdioClient
from tests.kits.constants import TIMEOUT
from tests.kits.hooks.hooks_kit import HookedServer, ask
from tests.kits.questions.asking_kit import accept, get_code, get_text, make_bridge, serve_client

DENY, ALLOW = accept(value="Deny"), accept(value="Allow")


def create_server(event: str = "tool:pre", **options: Any) -> HookedServer:
    """Return a server with a hook that asks, and allows the call without an immediate answer."""
    server = HookedServer()
    server.on(event, ask(approval_default="allow", approval_timeout=0.3, **options))
    return server


async def answer_late(client: StdioClient, answers: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> Any:
    """Return the result of a call with an answer of its client after the default."""
    call = client.start_call("add", {"n": 2})
    assert list(await call.get_questions()) == ["q1"]
    with anyio.fail_after(TIMEOUT):
        while "by default" not in caplog.text:  # noqa: ASYNC110 - only the log shows it
            await anyio.sleep(0.01)
    return await call.get_result(answers)


@pytest.mark.parametrize(
    "answer", [DENY, {"action": "decline"}, {"action": "cancel"}, accept(value="Whatever")], ids=str
)
async def test_a_late_answer_that_does_not_allow_the_call_stops_it(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = create_server()
    async with serve_client(server.registry) as client:
        result = await answer_late(client, {"q1": answer}, caplog)
    assert (get_code(result), server.calls) == ("approval_declined", [])


@pytest.mark.parametrize("answers", [{"q1": ALLOW}, {}, {"q2": DENY}], ids=str)
async def test_a_call_without_a_late_denial_runs_once(answers: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = create_server()
    async with serve_client(server.registry) as client:
        result = await answer_late(client, answers, caplog)
    assert (get_text(result), len(server.calls)) == ('{"sum":3}', 1)


async def test_a_late_denial_of_a_result_turns_it_into_an_error(caplog: pytest.LogCaptureFixture) -> None:
    server = create_server("tool:post")
    async with serve_client(server.registry) as client:
        result = await answer_late(client, {"q1": DENY}, caplog)
    assert get_code(result) == "approval_declined"
    assert "sum" not in str(result)


async def test_a_known_denial_applies_at_another_instance_with_any_timeout() -> None:
    houses = [HookedServer(), HookedServer()]
    for server, seconds in zip(houses, (60, 0), strict=True):
        server.on("tool:pre", ask(approval_default="allow", approval_timeout=seconds))
    client, other_client = [
        make_bridge(server.registry, keys=("a key of thirty-two bytes or more",)) for server in houses
    ]
    async with serve_client(client) as first, serve_client(other_client) as second:
        call = first.start_call("add", {"n": 2})
        await call.get_questions()
        assert get_code(await call.continue_on(second).get_result({"q1": DENY})) == "approval_declined"
        first.close_input()
    assert [server.calls for server in houses] == [[], []]


async def test_a_late_denial_of_a_nested_call_stops_it(caplog: pytest.LogCaptureFixture) -> None:
    server = HookedServer(timeout=1.0)
    question = ask(approval_default="allow", approval_timeout=0.3)
    server.on("tool:pre", lambda data: question if data["tool_name"] == "add" else None)

    @tool(registry=server.registry)
    async def pass_on(n: int, ctx: CallContext) -> Any:
        return await ctx.invoke("add", {"n": n})

    async with serve_client(server.registry) as client:
        call = client.start_call("pass_on", {"n": 2})
        assert list(await call.get_questions()) == ["q1"]
        with anyio.fail_after(TIMEOUT):
            while "by default" not in caplog.text:  # noqa: ASYNC110 - only the log shows it
                await anyio.sleep(0.01)
        # The time limit of the outer call is paused.
        await anyio.sleep(1.2)
        result = await call.get_result({"q1": DENY})
    assert (get_code(result), server.calls) == ("approval_declined", [])
