"""The cancellation of a task by the code in it, or by others."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge._runtime.cancellation import CancellationWatch
from tests.kits.loops import BOTH_LOOPS


async def cancel_own_task() -> None:
    task: Any = asyncio.current_task()
    task.cancel()
    await asyncio.sleep(0)


async def cancel_own_task_unnoticed() -> str:
    task: Any = asyncio.current_task()
    task.cancel()
    return "done"


async def is_cancelled_by_others(code: Any) -> bool:
    watch = CancellationWatch()
    try:
        await watch.run(code)
    except BaseException as error:
        return watch.is_cancelled_by_others(error)
    raise AssertionError("nothing was raised")


@BOTH_LOOPS
async def test_results_and_errors_of_the_code_pass() -> None:
    async def answer() -> str:
        await anyio.lowlevel.checkpoint()
        return "answer"

    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise KeyError("x")

    assert await CancellationWatch().run(answer()) == "answer"
    with pytest.raises(KeyError):
        await CancellationWatch().run(fail())
    assert not await is_cancelled_by_others(fail())


async def test_any_awaitable_can_be_watched() -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, "set")
    assert await CancellationWatch().run(future) == "set"


async def test_a_cancelled_error_that_the_code_raises_is_its_own() -> None:
    async def make_up() -> None:
        raise asyncio.CancelledError

    assert not await is_cancelled_by_others(make_up())


async def test_requests_of_code_to_cancel_its_own_task_are_counted_and_can_be_taken_back() -> None:
    task: Any = asyncio.current_task()
    assert not await is_cancelled_by_others(cancel_own_task())
    task.uncancel()
    watch = CancellationWatch()
    assert await watch.run(cancel_own_task_unnoticed()) == "done"
    assert watch.own_requests == 1
    await watch.reset()
    await asyncio.sleep(0)
    assert task.cancelling() == 0


@BOTH_LOOPS
async def test_a_scope_around_the_code_is_cancelled_by_others_and_one_inside_is_not() -> None:
    outcomes: list[bool] = []
    with anyio.CancelScope() as outer:
        outer.cancel()
        outcomes.append(await is_cancelled_by_others(anyio.lowlevel.checkpoint()))
    assert outcomes == [True]

    async def cancel_inside() -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        return "done"

    watch = CancellationWatch()
    assert await watch.run(cancel_inside()) == "done"
    assert watch.own_requests == 0


async def test_an_outer_timeout_is_cancellation_by_others_and_one_inside_is_not() -> None:
    outcomes: list[bool] = []

    async def run_in_time() -> None:
        async with asyncio.timeout(0):
            outcomes.append(await is_cancelled_by_others(asyncio.sleep(60)))

    await run_in_time()
    assert outcomes == [True]

    async def time_out() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    watch = CancellationWatch()
    with pytest.raises(TimeoutError):
        await watch.run(time_out())
    assert watch.own_requests == 0


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_task_that_others_cancel_is_cancelled_by_others(grouped: bool) -> None:
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            if grouped:
                raise BaseExceptionGroup("both", [error, ValueError("x")]) from None
            raise

    task = asyncio.create_task(is_cancelled_by_others(wait()))
    await asyncio.sleep(0)
    task.cancel()
    assert await task
