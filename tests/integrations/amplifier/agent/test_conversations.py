"""How long conversations with an agent last, and how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolCall
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge.amplifier.testing import wait_for
from tests.integrations.amplifier.agent.test_agent_tool import SLOW, name_module
from tests.kits.amplifier.amplifier_plans import ServedPlan
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS


def serve(folder: Path, *responses: Any, **limits: Any) -> ServedPlan:
    """Serve a plan with an agent. Its model counts by default."""
    slow = name_module(folder, "slow")
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-scripted", "config": {"responses": [*responses, "One.", "Two."]}}],
        "tools": [{"module": slow}],
    }
    return ServedPlan(folder, {slow: SLOW}, limits=SessionLimits(**limits), **plan)


async def call(server: ServedPlan, principal: str, name: str = "run_agent", **arguments: Any) -> Any:
    """Call a tool as a principal, and return the result."""
    ctx = RunningCall(principal=principal, session=f"principal/{principal}")
    return await server.bridge.registry.dispatch(ToolCall(id="1", name=name, arguments=arguments), ctx)


async def begin_conversation(server: ServedPlan, principal: str = "ann") -> str:
    """Begin a conversation as a principal, and return its handle."""
    result = await call(server, principal, task="Count.")
    assert result.success, result
    return str(result.output["session"])


async def is_open(server: ServedPlan, handle: str, principal: str = "ann") -> bool:
    """Whether a conversation can be continued; this counts as a use."""
    result = await call(server, principal, task="Go on.", session=handle)
    assert result.success or result.code == "session_not_found"
    return bool(result.success)


async def test_conversations_end_no_session_of_a_client(tmp_path: Path) -> None:
    server = serve(tmp_path, limit=2)
    async with server.run_bridge():
        await begin_conversation(server)
        [session] = [entry for key, entry in server.source.sessions._sessions.items() if key == "principal/ann"]
        for _ in range(4):
            await begin_conversation(server)
        assert server.source.sessions._sessions["principal/ann"] is session
        assert server.source.sessions.in_use == 1


async def test_sessions_of_clients_end_no_conversation(tmp_path: Path) -> None:
    server = serve(tmp_path, limit=2)
    async with server.run_bridge():
        handle = await begin_conversation(server)
        for number in range(4):
            assert not await is_open(server, "unknown", f"client {number}")
        assert server.source.sessions.in_use == 2
        assert await is_open(server, handle)


async def test_the_conversation_that_was_idle_the_longest_ends_for_a_new_one(tmp_path: Path) -> None:
    server = serve(tmp_path, conversations=8)
    async with server.run_bridge():
        # This is the share of one client.
        handles = [await begin_conversation(server) for _ in range(6)]
        assert await is_open(server, handles[0])
        handles.append(await begin_conversation(server))
        assert [await is_open(server, handle) for handle in handles] == [True, False, *[True] * 5]
        result = await call(server, "ann", task="Go on.", session=handles[1])
    assert "has ended because it was idle or there were too many" in result.error_text


async def test_a_principal_ends_only_its_own_conversations_beyond_its_share(tmp_path: Path) -> None:
    server = serve(tmp_path, conversations=4)
    async with server.run_bridge():
        theirs = await begin_conversation(server, "bob")
        mine = [await begin_conversation(server, "ann") for _ in range(9)]
        assert await is_open(server, theirs, "bob")
        assert [await is_open(server, handle) for handle in mine] == [*[False] * 6, True, True, True]


async def test_the_principal_with_the_most_conversations_makes_room_for_another(tmp_path: Path) -> None:
    server = serve(tmp_path, conversations=4)
    async with server.run_bridge():
        theirs = await begin_conversation(server, "bob")
        mine = [await begin_conversation(server, "ann") for _ in range(3)]
        third = await begin_conversation(server, "cyd")
        assert await is_open(server, theirs, "bob")
        assert await is_open(server, third, "cyd")
        assert [await is_open(server, handle) for handle in mine] == [False, True, True]


async def test_a_conversation_in_use_does_not_end(tmp_path: Path) -> None:
    server = serve(tmp_path, {"calls": [{"name": "slow"}]}, conversations=1)
    async with server.run_bridge(), anyio.create_task_group() as tasks:
        state = server.coordinator.get("tools")["slow"].execute.__globals__["STATE"]
        tasks.start_soon(lambda: call(server, "ann", task="Wait."))
        assert await wait_for(lambda: "began" in state, 30)
        rejection = await call(server, "bob", task="Count.")
        assert rejection.code == "overloaded"
        assert "too many conversations" in rejection.error_text
        tasks.cancel_scope.cancel()


async def test_an_idle_conversation_ends(tmp_path: Path) -> None:
    server = serve(tmp_path, idle_timeout=0.2)
    async with server.run_bridge():
        handle = await begin_conversation(server)
        assert await wait_for(lambda: not server.source.sessions.conversations_in_use, 30)
        assert not await is_open(server, handle)


@pytest.mark.parametrize("shared", [False, True])
async def test_conversations_of_a_connection_end_with_it(shared: bool, tmp_path: Path) -> None:
    server = serve(tmp_path, shared=shared)
    async with server.run_bridge():
        async with server.connect(mode="legacy") as client:
            assert not (await client.call_tool("run_agent", {"task": "Count."})).is_error
            assert server.source.sessions.conversations_in_use == 1
        assert await wait_for(lambda: server.source.sessions.conversations_in_use == 0, 30)
