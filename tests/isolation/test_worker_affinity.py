"""Calls reach the worker with the state of earlier calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import psutil

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge.amplifier.testing import wait_for
from tests.isolation.test_untrusted_workers import FINE, REQUEST, open_pool
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

KEEPS = {"say": "result", "id": "$id", "result": {**FINE, "output": {"id": "a"}}}


@BOTH_LOOPS
async def test_a_worker_with_a_state_ends_when_its_offer_is_out_of_date() -> None:
    request = replace(REQUEST, arguments={"id": "a"}, affinity="id")
    earlier = set(psutil.Process().children())
    async with open_pool(KEEPS) as pool:
        before = set(psutil.Process().children()) - earlier
        await pool.call(request, RunningCall())
        pool.current = {"say": "offer", "tools": "others"}
        await pool.call(request, RunningCall())
        assert await wait_for(lambda: not before & set(psutil.Process().children()), 10)


class SlowContext(RunningCall):
    """A call with a question that cannot be cancelled until `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released = anyio.Event()

    async def put(self, questions: Any) -> Any:
        with anyio.CancelScope(shield=True):
            await self.released.wait()
        return {}


@BOTH_LOOPS
async def test_a_worker_that_has_ended_before_its_call_has_no_state() -> None:
    request = replace(REQUEST, arguments={"id": "a"}, affinity="id")
    asks = {"say": "ask", "id": "$id", "ask": 1, "what": "put", "questions": {}}
    ctx = SlowContext()
    async with open_pool(asks, KEEPS, "exit") as pool:
        [first] = pool._all
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.call, request, ctx)
            await first.ended.wait()
            await anyio.wait_all_tasks_blocked()
            ctx.released.set()
        with anyio.fail_after(TIMEOUT):
            assert (await pool.call(request, ctx)).success
