"""Calls of unknown tools wait for starting sources, but only a limited number of calls."""

from __future__ import annotations

import anyio

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.registry import MAX_WAITING, ToolRegistry
from mcp_bridge._runtime.limiter import compute_share
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS
SHARE = compute_share(MAX_WAITING)


class StartingSource:
    """A registry with a starting source; `waiting` counts the waiting calls."""

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self.registry.explain_missing = self.wait_for_start
        self.has_started = anyio.Event()
        self.waiting = 0

    async def wait_for_start(self, name: str) -> str:
        self.waiting += 1
        await self.has_started.wait()
        return "It has not started."

    async def call(self, client: str) -> ToolResult:
        ctx = RunningCall()
        ctx.client = client
        return await self.registry.dispatch(ToolCall(id="1", name="late__echo", arguments={}), ctx)


async def test_a_client_that_calls_unknown_tools_in_a_flood_gets_errors_at_once() -> None:
    source, codes = StartingSource(), list[str | None]()

    async def call() -> None:
        codes.append((await source.call("session/one")).code)

    async with anyio.create_task_group() as tasks:
        for _ in range(SHARE + 100):
            tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        assert codes == ["overloaded"] * 100
        assert source.waiting == SHARE
        source.has_started.set()
    assert codes.count("tool_unavailable") == SHARE


async def test_another_client_still_waits_for_its_tool() -> None:
    source = StartingSource()
    async with anyio.create_task_group() as tasks:
        for _ in range(SHARE + 1):
            tasks.start_soon(source.call, "session/one")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(source.call, "session/two")
        await anyio.wait_all_tasks_blocked()
        assert source.waiting == SHARE + 1
        source.has_started.set()


async def test_later_calls_wait_again() -> None:
    source = StartingSource()
    source.has_started.set()
    for _ in range(MAX_WAITING + 1):
        assert (await source.call("session/one")).code == "tool_unavailable"
