"""Suspended runs of an agent, while the user is asked (2026-07-28)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._protocol.peer.connection import IncomingRequest
from mcp_bridge.amplifier.testing import wait_for
from mcp_bridge.serving import State
from tests.client.stdio_client import StdioClient
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_plans import ServedPlan
from tests.kits.amplifier.slow_tool import SLOW
from tests.kits.constants import HANDSHAKE
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import INVALID_STATE, accept, get_text, is_idle, serve_client
from tests.kits.questions.asking_kit import get_code as raw_code
from tests.server.questions.test_question_quotas import ENVELOPE, NoStream

pytestmark = BOTH_LOOPS
ALLOW = {"q1": accept(value="Allow")}
ASKS = """
import anyio
GATES = []

async def mount(coordinator, config):
    async def ask(event, data):
        prompt = data["prompt"] if "prompt" in data else data["messages"][-1]["content"]
        if prompt == "Ask late.":
            GATES.append(anyio.Event())
            await GATES[-1].wait()
        if prompt.startswith("Ask"):
            return HookResult(action="ask_user", approval_prompt="May it?", **config["asked"])
        return HookResult()

    coordinator.hooks.register(config["event"], ask)
"""


def serve(
    folder: Path,
    *responses: Any,
    event: str = "prompt:submit",
    asked: Any = None,
    loop: Any = None,
    providers: Any = None,
    **state: Any,
) -> ServedPlan:
    """Serve a plan with an agent. A hook asks the user about each task with `Ask` at its beginning."""
    asks, slow = name_module(folder, "asks"), name_module(folder, "slow")
    plan: dict[str, Any] = {
        "session": {"orchestrator": {"module": "loop-basic", "config": loop or {}}, "context": "context-simple"},
        "providers": providers or [{"module": "provider-scripted", "config": {"responses": list(responses)}}],
        "hooks": [{"module": asks, "config": {"event": event, "asked": asked or {}}}],
        "tools": [{"module": slow}],
    }
    server = ServedPlan(folder, {asks: ASKS, slow: SLOW}, **plan)
    registry = ToolRegistry(pipeline=Pipeline(server.source.middleware))
    server.bridge = Bridge(registry, sources=[AttachedSource(source=server.source)], state=State(**state))
    return server


@contextlib.asynccontextmanager
async def talk_to(server: ServedPlan, **options: Any) -> AsyncIterator[StdioClient]:
    async with serve_client(server.bridge, **options) as client:
        await server.bridge.wait_until_started()
        yield client


async def begin_conversation(client: StdioClient) -> str:
    """Begin a conversation, and return its handle."""
    answer = await client.request("tools/call", {"name": "run_agent", "arguments": {"task": "Count."}})
    return str(answer["result"]["structuredContent"]["session"])


def _call_params(task: str, handle: str) -> dict[str, Any]:
    return {"name": "run_agent", "arguments": {"task": task, "session": handle}}


def count_runs(server: ServedPlan) -> int:
    """Return how many calls use a conversation."""
    conversations = [entry for key, entry in server.source.sessions._sessions.items() if key.startswith("agent/")]
    return sum(entry.calls for entry in conversations)


async def test_a_run_continues_where_it_was_once_the_user_has_answered(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.")
    async with talk_to(server) as client:
        call = client.start_call("run_agent", {"task": "Ask first."})
        questions = await call.get_questions()
        assert questions["q1"]["params"]["message"] == "May it?"
        assert get_text(await call.get_result(ALLOW)) == "One."
        assert is_idle(server.bridge)


async def test_a_state_continues_a_run_only_once(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.")
    async with talk_to(server) as client:
        call = client.start_call("run_agent", {"task": "Ask first."})
        await call.get_questions()
        assert get_text(await call.get_result(ALLOW)) == "One."
        assert await call.get_error(ALLOW) == INVALID_STATE


async def test_a_call_of_a_suspended_conversation_is_an_error_and_does_not_wait(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.", "Three.")
    async with talk_to(server) as client:
        handle = await begin_conversation(client)
        call = client.start_call("run_agent", {"task": "Ask first.", "session": handle})
        await call.get_questions()
        rejection = await client.start_call("run_agent", {"task": "Go on.", "session": handle}).get_result()
        assert raw_code(rejection) == "session_busy"
        assert "waits for the user's answer" in get_text(rejection)
        assert get_text(await call.get_result(ALLOW)) == "Two."
        assert (
            get_text(await client.start_call("run_agent", {"task": "Go on.", "session": handle}).get_result())
            == "Three."
        )


async def test_a_call_that_waits_for_its_turn_is_an_error_once_the_run_before_it_asks(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.")
    async with talk_to(server, version=HANDSHAKE) as client:
        handle = await begin_conversation(client)
        gates = server.coordinator.hooks.list_registrations()["prompt:submit"][0].handler.__globals__["GATES"]
        first = await client.send_request("tools/call", _call_params("Ask late.", handle))
        assert await wait_for(lambda: len(gates) == 1, 30)
        second = await client.send_request("tools/call", _call_params("Go on.", handle))
        assert await wait_for(lambda: count_runs(server) == 2, 30)
        gates[0].set()
        rejection = (await client.receive_response(second))["result"]
        assert raw_code(rejection) == "session_busy"
        await client.respond(await client.receive_request(), result=accept(value="Allow"))
        assert get_text((await client.receive_response(first))["result"]) == "Two."


async def test_a_run_whose_client_never_comes_back_ends_and_its_conversation_is_free(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.", ttl=0.5)
    async with talk_to(server) as client:
        handle = await begin_conversation(client)
        call = client.start_call("run_agent", {"task": "Ask first.", "session": handle})
        await call.get_questions()
        assert await wait_for(lambda: is_idle(server.bridge) and not count_runs(server), 30)
        assert (
            get_text(await client.start_call("run_agent", {"task": "Go on.", "session": handle}).get_result()) == "Two."
        )
        answer = await call.exchange(ALLOW)
        assert answer.get("error") == INVALID_STATE or raw_code(answer["result"]) == "question_expired"


async def test_cancelling_the_request_that_continues_a_run_ends_it(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", {"calls": [{"name": "slow"}]}, "Three.")
    async with talk_to(server) as client:
        state = server.coordinator.get("tools")["slow"].execute.__globals__["STATE"]
        handle = await begin_conversation(client)
        call = client.start_call("run_agent", {"task": "Ask first.", "session": handle})
        await call.get_questions()
        number = await call.send(ALLOW)
        assert await wait_for(lambda: "began" in state, 30)
        await client.cancel(number)
        assert await wait_for(lambda: "ended" in state and not count_runs(server), 30)
        assert is_idle(server.bridge)
        assert await call.get_error(ALLOW) == INVALID_STATE
        assert (
            get_text(await client.start_call("run_agent", {"task": "Go on.", "session": handle}).get_result())
            == "Three."
        )


async def test_the_time_budget_of_a_run_does_not_count_while_it_waits_for_the_user(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", loop={"max_seconds": 2}, event="provider:request")
    async with talk_to(server) as client:
        call = client.start_call("run_agent", {"task": "Ask first."})
        await call.get_questions()
        await anyio.sleep(2.2)
        assert get_text(await call.get_result(ALLOW)) == "One."


async def test_the_time_budget_of_a_run_counts_the_model_of_the_client(tmp_path: Path) -> None:
    server = serve(tmp_path, loop={"max_seconds": 0.5}, providers=[{"module": "provider-sampling"}])
    async with talk_to(server) as client:
        call = client.start_call("run_agent", {"task": "Count."})
        await call.get_questions()
        await anyio.sleep(0.7)
        assert "max_seconds" in get_text(await call.get_result())


async def test_a_late_denial_stops_a_run_that_continued_by_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"approval_timeout": 0.3, "approval_default": "allow"}
    server = serve(tmp_path, "One.", asked=options)
    async with talk_to(server) as client:
        call = client.start_call("run_agent", {"task": "Ask first."})
        await call.get_questions()
        assert await wait_for(lambda: "by default" in caplog.text, 30)
        assert "The user declined" in get_text(await call.get_result({"q1": accept(value="Deny")}))


async def test_suspended_runs_end_with_the_server(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.")
    async with talk_to(server) as client:
        await client.start_call("run_agent", {"task": "Ask first."}).get_questions()
        assert count_runs(server) == 1
        calls = server.bridge.endpoint.calls._rounds._suspended
    assert calls.count == 0
    assert server.source.sessions.in_use == 0


async def call_as(server: ServedPlan, principal: str, arguments: dict[str, Any], **more: Any) -> Any:
    """Return the result of a call of a principal, or its error."""
    params = {"name": "run_agent", "arguments": arguments, "_meta": ENVELOPE, **more}
    request = IncomingRequest(1, "tools/call", params, NoStream(), principal=principal, client=f"principal/{principal}")
    response = await request.run(server.bridge.endpoint.handle_stateless(request))
    assert response is not None
    return response.get("result", response.get("error"))


@contextlib.asynccontextmanager
async def run_endpoint(server: ServedPlan) -> AsyncIterator[None]:
    async with server.run_bridge(), anyio.create_task_group() as tasks:
        await tasks.start(server.bridge.endpoint.run)
        yield
        tasks.cancel_scope.cancel()


async def test_only_the_principal_of_a_run_can_continue_it(tmp_path: Path) -> None:
    server, task = serve(tmp_path, "One."), {"task": "Ask first."}
    async with run_endpoint(server):
        state = (await call_as(server, "ann", task))["requestState"]
        assert await call_as(server, "bob", task, requestState=state, inputResponses=ALLOW) == INVALID_STATE
        assert get_text(await call_as(server, "ann", task, requestState=state, inputResponses=ALLOW)) == "One."


async def test_suspended_runs_are_bounded_and_one_principal_cannot_lock_out_another(tmp_path: Path) -> None:
    server, task = serve(tmp_path, "One.", suspended=4), {"task": "Ask first."}
    async with run_endpoint(server):
        states = [(await call_as(server, "ann", task))["requestState"] for _ in range(6)]
        # One client has at most three quarters of the places.
        assert await wait_for(lambda: count_runs(server) == 3, 30)
        mine = (await call_as(server, "bob", task))["requestState"]
        assert get_text(await call_as(server, "bob", task, requestState=mine, inputResponses=ALLOW)) == "One."
        result = await call_as(server, "ann", task, requestState=states[0], inputResponses=ALLOW)
        assert raw_code(result) == "question_expired"
        assert get_text(await call_as(server, "ann", task, requestState=states[-1], inputResponses=ALLOW)) == "One."
