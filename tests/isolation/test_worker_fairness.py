"""Calls get workers in turns, so many calls of one tool or client do not delay others."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from mcp_bridge._contracts.running_call import RunningCall
from tests.isolation.test_untrusted_workers import REQUEST, open_pool
from tests.kits.loops import BOTH_LOOPS

PROGRESS = {"say": "progress", "id": "$id", "progress": 1, "total": None, "message": None}


class WaitingContext(RunningCall):
    """A call until `released` is set."""

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client
        self.started, self.released = anyio.Event(), anyio.Event()

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.started.set()
        await self.released.wait()


@BOTH_LOOPS
@pytest.mark.parametrize("second_call", [("t", "ann"), ("another tool", "hog")], ids=["client", "tool"])
async def test_a_call_does_not_wait_for_all_calls_of_another_client_or_tool(second_call: tuple[str, str]) -> None:
    ended: list[tuple[str, str]] = []
    first = WaitingContext("hog")

    async with open_pool(PROGRESS, "answer") as pool, anyio.create_task_group() as tasks:

        async def call(name: str, client: str) -> None:
            ctx = WaitingContext(client)
            ctx.released.set()
            await pool.call(replace(REQUEST, name=name), ctx)
            ended.append((name, client))

        tasks.start_soon(pool.call, REQUEST, first)
        await first.started.wait()
        for _ in range(4):
            tasks.start_soon(call, "t", "hog")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(call, *second_call)
        await anyio.wait_all_tasks_blocked()
        first.released.set()
    assert ended.index(second_call) <= 1
