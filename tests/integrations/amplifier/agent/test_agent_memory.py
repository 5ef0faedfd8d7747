"""The memory of a server levels off under many short runs of an agent with abandoned conversations."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil

from mcp_bridge import ToolCall
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from tests.integrations.amplifier.agent.test_agent_tool import LOOK, serve
from tests.kits.amplifier.amplifier_plans import ServedPlan

LIMIT = 20


async def run(server: ServedPlan, **arguments: Any) -> Any:
    ctx = RunningCall(session="one")
    call = ToolCall(id="1", name="run_agent", arguments={"task": "Look.", **arguments})
    return await server.bridge.registry.dispatch(call, ctx)


async def abandon_conversations(server: ServedPlan, count: int) -> None:
    """Begin conversations: every third is continued once, and every third cancelled."""
    for number in range(count // 4 * 3):
        if number % 3 == 0:
            result = await run(server)
            assert (await run(server, session=result.output["session"])).output["text"] == "It says hello."
        elif number % 3 == 1:
            assert (await run(server)).success
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(run, server))
                await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()


async def test_memory_levels_off_under_abandoned_conversations(tmp_path: Path) -> None:
    server = serve(tmp_path, LOOK, "It says hello.", limits=SessionLimits(conversations=LIMIT))
    async with server.bridge.run_sources():
        await server.bridge.wait_until_started()
        # Fill the caches.
        await abandon_conversations(server, 400)
        gc.collect()
        full = psutil.Process().memory_info().rss
        await abandon_conversations(server, 1600)
        gc.collect()
        memory = psutil.Process().memory_info().rss
        sessions = [value for value in gc.get_objects() if type(value) is ModuleSession]
        print(f"{full >> 10} KiB, then {memory >> 10} KiB, {len(sessions)} sessions")
        # The first session exists, too, because it determines the published tools.
        assert len(sessions) <= LIMIT + 1
        assert len(anyio.get_running_tasks()) < LIMIT + 10
        assert memory < 1.1 * full
