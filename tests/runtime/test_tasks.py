"""An owner of tasks ends its tasks, and no task ends another."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mcp_bridge._runtime.tasks import TaskOwner, own_tasks
from tests.kits.loops import BOTH_LOOPS


def spawn(tasks: TaskOwner, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
    """Start a task in a cancel scope."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await function(*args)

    tasks.spawn(run, cancel=scope.cancel)


@BOTH_LOOPS
async def test_a_task_runs_concurrently_with_the_block() -> None:
    end = anyio.Event()

    async def work(number: int) -> None:
        assert number == 7
        end.set()

    async with own_tasks() as tasks:
        tasks.spawn(work, 7, cancel=lambda: None)
        await end.wait()


@BOTH_LOOPS
async def test_the_end_of_the_block_cancels_its_tasks_and_waits_for_their_cleanup() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            steps.append("cleaned up")

    async with own_tasks() as tasks:
        spawn(tasks, work)
        await anyio.wait_all_tasks_blocked()
    assert steps == ["cleaned up"]


@BOTH_LOOPS
async def test_an_error_of_the_block_ends_its_tasks_too() -> None:
    end = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            end.set()

    async def fail() -> None:
        async with own_tasks() as tasks:
            spawn(tasks, work)
            await anyio.wait_all_tasks_blocked()
            raise ValueError

    with pytest.raises((ValueError, ExceptionGroup)):
        await fail()
    assert end.is_set()


@BOTH_LOOPS
async def test_a_task_that_fails_is_logged_and_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    end = anyio.Event()

    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> None:
        await anyio.wait_all_tasks_blocked()
        end.set()

    async with own_tasks() as tasks:
        spawn(tasks, fail)
        spawn(tasks, work)
        await end.wait()
    assert "broken" in caplog.text


@BOTH_LOOPS
async def test_tasks_end_with_their_owner_before_their_first_step() -> None:
    steps: list[str] = []

    async def work(depth: int) -> None:
        if depth:
            spawn(tasks, work, depth - 1)
        try:
            await anyio.sleep_forever()
        finally:
            steps.append(f"end {depth}")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with own_tasks() as tasks:
            spawn(tasks, work, 1)
        gc.collect()
    assert sorted(steps) == ["end 0", "end 1"]
    assert [str(warning.message) for warning in caught if warning.category is RuntimeWarning] == []


@BOTH_LOOPS
async def test_a_task_that_ignores_its_cancellation_is_cancelled_again() -> None:
    ignored = 0

    async def work() -> None:
        nonlocal ignored
        while True:
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                ignored += 1
                if ignored == 3:
                    raise

    async with own_tasks() as tasks:
        spawn(tasks, work)
        await anyio.wait_all_tasks_blocked()
    assert ignored == 3


@BOTH_LOOPS
async def test_the_tasks_end_before_the_cancellation_of_the_block_passes() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            steps.append("cleaned up")

    with anyio.CancelScope() as scope:
        async with own_tasks() as tasks:
            spawn(tasks, work)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.sleep_forever()
    assert (scope.cancelled_caught, steps) == (True, ["cleaned up"])


async def test_a_cancellation_by_asyncio_waits_for_the_tasks_too() -> None:
    release = asyncio.Event()
    in_cleanup = asyncio.Event()
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                in_cleanup.set()
                await release.wait()
            steps.append("cleaned up")

    async def own() -> None:
        async with own_tasks() as tasks:
            spawn(tasks, work)
            await anyio.sleep_forever()

    owner = asyncio.create_task(own())
    await anyio.wait_all_tasks_blocked()
    owner.cancel()
    await in_cleanup.wait()
    owner.cancel()
    await anyio.lowlevel.checkpoint()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert steps == ["cleaned up"]
