"""Slots of a limiter: bounded in total and per key, given out in turn, and lent while a user is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcp_bridge._runtime.limiter import Limiter, LimiterFull, Slot, compute_share
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS


class Crowd:
    """Callers for slots, with the order of their admissions and rejections."""

    def __init__(self, limiter: Limiter, quota: float) -> None:
        self.limiter = limiter
        self.quota = quota
        self.admitted: list[str] = []
        self.rejected: list[str] = []
        self.slots: list[Slot] = []

    async def wait(self, name: str) -> None:
        """Wait with the first letter of the name as the key, and keep the slot."""
        try:
            self.slots.append(await self.limiter.acquire(name[0], quotas=[(name[0], self.quota)]))
            self.admitted.append(name)
        except LimiterFull:
            self.rejected.append(name)

    async def release_one(self) -> None:
        self.slots.pop(0).release()
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def keep_callers_waiting(
    limiter: Limiter, names: Sequence[str], *, quota: float = float("inf")
) -> AsyncIterator[Crowd]:
    """Let these callers wait, one after the other. After the block, the remaining ones are cancelled."""
    crowd = Crowd(limiter, quota)
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(crowd.wait, name)
                await anyio.wait_all_tasks_blocked()
            yield crowd
            tasks.cancel_scope.cancel()


async def test_no_more_slots_than_the_total_are_in_use() -> None:
    limiter = Limiter(2)
    first = limiter.acquire_nowait()
    assert first is not None
    assert limiter.acquire_nowait() is not None
    assert limiter.acquire_nowait() is None
    first.release()
    assert limiter.in_use == 1
    assert limiter.acquire_nowait() is not None


async def test_a_caller_without_a_key_gets_the_slot_that_it_waits_for() -> None:
    limiter = Limiter(1)
    first = await limiter.acquire()
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limiter.acquire)
            await anyio.wait_all_tasks_blocked()
            first.release()
    assert (limiter.in_use, limiter.waiting) == (1, 0)


async def test_keys_that_wait_take_turns_and_callers_of_one_key_come_in_order() -> None:
    limiter = Limiter(1)
    async with keep_callers_waiting(limiter, ["x", "a1", "a2", "a3", "b1", "b2", "c1"]) as crowd:
        for _ in range(7):
            await crowd.release_one()
        assert crowd.admitted == ["x", "a1", "b1", "c1", "a2", "b2", "a3"]
    assert (limiter.in_use, limiter.waiting) == (0, 0)


async def test_a_key_at_its_quota_waits_while_others_use_the_rest_of_the_total() -> None:
    limiter = Limiter(3)
    async with keep_callers_waiting(limiter, ["a1", "a2", "a3", "b1", "c1"], quota=1) as crowd:
        assert crowd.admitted == ["a1", "b1", "c1"]
        assert limiter.waiting == 2
        await crowd.release_one()
        assert crowd.admitted == ["a1", "b1", "c1", "a2"]


async def test_a_free_slot_passes_a_key_at_its_quota_and_the_key_keeps_its_turn() -> None:
    limiter = Limiter(2)
    async with keep_callers_waiting(limiter, ["a1", "b1", "a2", "c1", "c2"], quota=1) as crowd:
        # This is the slot of b1, while a2 may not run yet.
        crowd.slots[1].release()
        await anyio.wait_all_tasks_blocked()
        assert crowd.admitted == ["a1", "b1", "c1"]
        crowd.slots[0].release()
        await anyio.wait_all_tasks_blocked()
        assert crowd.admitted == ["a1", "b1", "c1", "a2"]


async def test_a_slot_beyond_the_total_counts_against_its_quota_only() -> None:
    limiter = Limiter(1)
    quotas = [("tool", 2)]
    assert limiter.acquire_nowait(quotas=quotas) is not None
    inner = limiter.acquire_nowait("inner", quotas=quotas, in_total=False)
    assert inner is not None
    assert limiter.in_use == 1
    assert limiter.acquire_nowait("inner", quotas=quotas, in_total=False) is None
    inner.release()
    assert limiter.acquire_nowait("inner", quotas=quotas, in_total=False) is not None


async def test_every_quota_of_a_slot_has_to_have_room() -> None:
    limiter = Limiter(9)
    tool, client, other_slot = ("tool", 2), ("client", 1), ("other client", 1)
    assert limiter.acquire_nowait(quotas=[tool, client]) is not None
    assert limiter.acquire_nowait(quotas=[tool, client]) is None
    assert limiter.acquire_nowait(quotas=[tool, other_slot]) is not None
    assert limiter.acquire_nowait(quotas=[tool]) is None


async def test_a_full_queue_rejects_further_callers() -> None:
    limiter = Limiter(1, queue=2)
    async with keep_callers_waiting(limiter, ["a1", "a2", "a3", "a4"]) as crowd:
        assert crowd.rejected == ["a4"]
        assert limiter.waiting == 2
        await crowd.release_one()
        # There is room again.
        assert limiter.waiting == 1


async def test_without_a_queue_no_caller_waits() -> None:
    limiter = Limiter(1, queue=0)
    async with keep_callers_waiting(limiter, ["a1", "b1"]) as crowd:
        assert crowd.rejected == ["b1"]


async def test_a_caller_of_the_heaviest_key_is_rejected_from_a_full_queue() -> None:
    limiter = Limiter(1, queue=3)
    async with keep_callers_waiting(limiter, ["x", "a1", "a2", "a3", "b1", "c1"]) as crowd:
        # The newest callers of the key that waits most are rejected.
        assert crowd.rejected == ["a3", "a2"]
        for _ in range(4):
            await crowd.release_one()
        assert crowd.admitted == ["x", "a1", "b1", "c1"]


async def test_a_cancelled_caller_leaves_its_turn_to_the_next() -> None:
    limiter = Limiter(1)
    slot = limiter.acquire_nowait("x")
    assert slot is not None
    async with keep_callers_waiting(limiter, ["a1"]):
        assert limiter.waiting == 1
    assert limiter.waiting == 0
    async with keep_callers_waiting(limiter, ["b1"]) as crowd:
        slot.release()
        await anyio.wait_all_tasks_blocked()
        assert crowd.admitted == ["b1"]


async def test_a_caller_that_is_cancelled_as_its_turn_comes_returns_the_slot() -> None:
    limiter = Limiter(1)
    slot = limiter.acquire_nowait()
    assert slot is not None

    async def hold() -> None:
        taken = await limiter.acquire()
        try:
            await anyio.sleep_forever()
        finally:
            taken.release()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        slot.release()
        tasks.cancel_scope.cancel()
    assert (limiter.in_use, limiter.waiting) == (0, 0)


async def test_a_paused_slot_is_lent_and_resumed_immediately() -> None:
    limiter = Limiter(1)
    slot: Any = limiter.acquire_nowait("a")
    async with keep_callers_waiting(limiter, ["b1"]) as crowd:
        slot.pause()
        slot.pause()
        await anyio.wait_all_tasks_blocked()
        assert crowd.admitted == ["b1"]
        slot.resume()
        # The slot is beyond the total, because its call is in the middle of a function.
        assert limiter.in_use == 2
        slot.release()
        slot.resume()
        assert limiter.in_use == 1


async def test_a_client_with_many_waiting_tools_gets_a_quarter_of_the_turns() -> None:
    limiter, admitted = Limiter(1), []

    async def wait(client: str, tool: str) -> None:
        quotas = ((tool, 9), (client, 9))
        slot = await limiter.acquire(quotas, quotas=quotas)
        admitted.append(client)
        slot.release()

    async with anyio.create_task_group() as tasks:
        held = await limiter.acquire()
        for number, client in enumerate(["hog"] * 6 + ["ann", "bob", "cyd", "dan", "eve"]):
            tasks.start_soon(wait, client, f"tool {number}")
            await anyio.wait_all_tasks_blocked()
        held.release()
    assert admitted[:8] == ["hog", "ann", "bob", "cyd", "hog", "dan", "eve", "hog"]
    # No other key waits.
    assert admitted[8:] == ["hog"] * 3


async def test_a_client_that_fills_the_queue_with_many_tools_is_rejected_first() -> None:
    limiter, rejections = Limiter(1, queue=8), []

    async def wait(client: str, tool: str) -> None:
        quotas = ((tool, 9), (client, 9))
        try:
            await limiter.acquire(quotas, quotas=quotas)
        except LimiterFull:
            rejections.append(client)

    async with anyio.create_task_group() as tasks:
        await limiter.acquire()
        for number in range(8):
            tasks.start_soon(wait, "hog", f"tool {number}")
            await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            tasks.start_soon(wait, "ann", "another tool")
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert rejections == ["hog", "hog"]


async def test_a_slot_that_its_holder_lends_while_it_continues_is_taken_back_or_released() -> None:
    limiter = Limiter(1, lendable=1)
    slot, other_slot = limiter.acquire_nowait("a"), None
    assert slot is not None
    slot.lend()
    slot.lend()
    assert (limiter.in_use, limiter.lent) == (0, 1)
    other_slot = limiter.acquire_nowait("b")
    assert other_slot is not None
    other_slot.lend()
    # No more than one slot can be lent.
    assert limiter.in_use == 1
    slot.pause()
    slot.reclaim()
    # Its user is still asked.
    assert (limiter.in_use, limiter.lent) == (1, 0)
    slot.resume()
    assert limiter.in_use == 2
    slot.lend()
    slot.release()
    slot.release()
    slot.reclaim()
    assert (limiter.in_use, limiter.lent) == (1, 0)


@pytest.mark.parametrize(("total", "share"), [(1, 1), (3, 3), (4, 3), (32, 24), (50, 38), (1024, 768)])
async def test_a_share_is_three_quarters_and_leaves_a_slot_if_there_are_four(total: int, share: int) -> None:
    assert compute_share(total) == share


async def test_reclaiming_a_lent_slot_takes_no_slot_of_another_client() -> None:
    limiter = Limiter(4, lendable=4)

    def acquire(client: str) -> Slot | None:
        return limiter.acquire_nowait(client, quotas=((client, 3),))

    slots = [acquire("hog") for _ in range(3)]
    for slot in slots:
        assert slot is not None
        slot.lend()
    further_slots = [acquire("hog") for _ in range(3)]
    assert None not in further_slots
    for slot in slots:
        assert slot is not None
        # The slot stays lent, because the client has its share.
        slot.reclaim()
    assert acquire("ann") is not None
    assert limiter.lent == 3
    for slot in (*slots, *further_slots):
        assert slot is not None
        slot.release()
    assert (limiter.in_use, limiter.lent) == (1, 0)
