"""Deadlines end a block, pause while a user is asked, and leave cancellation by others alone."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge._runtime import cancellation
from mcp_bridge._runtime.cancellation import DeadlineClock
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS


async def run_until(clock: DeadlineClock, seconds: float, code: Any, outer: float | None = None) -> str:
    """Run the code in a block with a deadline; say how the block ended."""
    with clock.start_deadline(seconds, outer):
        await code()
        return "done"
    return "late"


@BOTH_LOOPS
async def test_a_block_ends_at_its_deadline_and_other_tasks_run_on() -> None:
    clock, outcomes = DeadlineClock(), dict[str, str]()

    async def run(name: str, seconds: float, code: Any) -> None:
        outcomes[name] = await run_until(clock, seconds, code)

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "long", TIMEOUT, anyio.lowlevel.checkpoint)
            tasks.start_soon(run, "late", 0.02, anyio.sleep_forever)
            tasks.start_soon(run, "sooner", 0.01, anyio.sleep_forever)
            tasks.start_soon(run, "at once", 0.0, anyio.sleep_forever)
    assert outcomes == {"long": "done", "late": "late", "sooner": "late", "at once": "late"}
    assert await run_until(clock, 0.01, anyio.sleep_forever) == "late"


@BOTH_LOOPS
async def test_an_error_of_the_block_is_raised_even_after_its_deadline() -> None:
    async def fail() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("x")

    with pytest.raises(KeyError):
        await run_until(DeadlineClock(), 0.01, fail)
    # No pending request cancels this task.
    await anyio.sleep(0.01)


@BOTH_LOOPS
async def test_no_deadline_is_after_the_outer_one_and_the_outer_block_ends_with_it() -> None:
    clock, ends = DeadlineClock(), list[str]()
    with clock.start_deadline(0.01) as outer:
        with clock.start_deadline(TIMEOUT, outer.deadline) as inner:
            assert inner.deadline == outer.deadline
            await anyio.sleep_forever()
        ends.append("inner")
    ends.append("outer")
    assert ends == ["outer"]


@BOTH_LOOPS
async def test_a_paused_deadline_resumes_with_its_remaining_time() -> None:
    with DeadlineClock().start_deadline(0.02) as deadline:
        deadline.pause()
        assert deadline.deadline == math.inf
        await anyio.sleep(0.05)
        deadline.resume()
        assert deadline.deadline <= anyio.current_time() + 0.02
        await anyio.sleep_forever()


@BOTH_LOOPS
async def test_a_cancellation_by_others_is_not_taken_for_the_deadline() -> None:
    with anyio.CancelScope() as scope:
        with DeadlineClock().start_deadline(TIMEOUT):
            scope.cancel()
            await anyio.sleep_forever()
        raise AssertionError("the deadline has not passed")
    assert scope.cancelled_caught


async def test_a_cancellation_by_others_passes_even_after_the_deadline() -> None:
    async def cleanup() -> None:
        try:
            await asyncio.sleep(TIMEOUT)
        finally:
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.sleep(TIMEOUT)

    task: Any = asyncio.create_task(run_until(DeadlineClock(), 0.01, cleanup))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_block_that_swallows_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "REDELIVERY", 0.01)
    cancellations: list[int] = []

    async def stubborn() -> None:
        while len(cancellations) < 3:
            try:
                await asyncio.sleep(TIMEOUT)
            except asyncio.CancelledError:
                cancellations.append(1)
        await asyncio.sleep(TIMEOUT)

    assert await run_until(DeadlineClock(), 0.01, stubborn) == "late"
    task: Any = asyncio.current_task()
    assert (len(cancellations), task.cancelling()) == (3, 0)


async def test_a_value_that_is_returned_after_the_deadline_is_kept() -> None:
    async def finish() -> None:
        try:
            await asyncio.sleep(TIMEOUT)
        except asyncio.CancelledError:
            return

    assert await run_until(DeadlineClock(), 0.01, finish) == "done"
    task: Any = asyncio.current_task()
    assert task.cancelling() == 0


def test_one_clock_serves_several_event_loops() -> None:
    clock = DeadlineClock()
    for _ in range(2):
        assert asyncio.run(run_until(clock, 0.01, anyio.sleep_forever)) == "late"
