"""Synchronous handlers in threads: bounded, with their caller's context variables, and never lost."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import from_thread
from anyio.lowlevel import checkpoint

from mcp_bridge import ToolCall, ToolRegistry
from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime.thread_pool import ThreadPool, _SlotHandover, make_call_soon
from mcp_bridge.middleware import Pipeline
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.wire.speaking import make_entry, raise_error

pytestmark = BOTH_LOOPS
tenant: ContextVar[str] = ContextVar("tenant", default="unknown-tenant")


def make_registry(handler: Any, threads: int) -> ToolRegistry:
    registry = ToolRegistry(pipeline=Pipeline(threads=threads, timeout=None))
    registry.register(make_entry(handler))
    return registry


async def dispatch(registry: ToolRegistry, arguments: Any = None) -> Any:
    return (await registry.dispatch(ToolCall(id="1", name="t", arguments=arguments or {}), RunningCall())).output


async def wait_until_free(threads: ThreadPool) -> None:
    with anyio.fail_after(TIMEOUT):
        while threads.busy_count:
            await checkpoint()


async def test_a_handler_runs_in_a_thread_and_sees_the_variables_of_its_caller() -> None:
    def look(data: Any) -> list[Any]:
        value = tenant.get()
        tenant.set("the handler's own")
        return [value, threading.current_thread() is threading.main_thread()]

    tenant.set("ann")
    assert await dispatch(make_registry(look, 1)) == ["ann", False]
    assert tenant.get() == "ann"


async def test_the_third_call_waits_for_one_of_two_threads() -> None:
    start: list[str] = []
    events = {name: threading.Event() for name in "abc"}

    def hold(data: Any) -> str:
        start.append(data["name"])
        assert events[data["name"]].wait(TIMEOUT)
        return str(data["name"])

    registry = make_registry(hold, 2)
    threads = registry.pipeline.threads
    end: list[str] = []

    async def calling(name: str) -> None:
        end.append(await dispatch(registry, {"name": name}))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for name in "ab":
                tasks.start_soon(calling, name)
            while sorted(start) != ["a", "b"]:
                await checkpoint()
            tasks.start_soon(calling, "c")
            await anyio.wait_all_tasks_blocked()
            assert sorted(start) == ["a", "b"]
            assert threads.busy_count == 2
            events["b"].set()
            while "c" not in start:
                await checkpoint()
            assert end == ["b"]
            events["a"].set()
            events["c"].set()
    assert sorted(end) == ["a", "b", "c"]
    assert threads.busy_count == 0


async def test_an_abandoned_thread_keeps_its_slot_until_it_ends() -> None:
    start, release = threading.Event(), threading.Event()
    threads = ThreadPool(1)
    try:
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(threads.run, lambda: (start.set(), release.wait(TIMEOUT)))
                while not start.is_set():
                    await checkpoint()
                tasks.cancel_scope.cancel()
            assert threads.busy_count == 1
            with pytest.raises(Overloaded):
                await threads.run(raise_error, AssertionError("there was no place"))
            assert threads.busy_count == 1
    finally:
        release.set()
    await wait_until_free(threads)
    assert await threads.run(lambda: "free again") == "free again"


async def test_a_call_of_an_abandoned_thread_into_the_event_loop_is_cancelled(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio does not cancel what an abandoned thread waits for")
    threads, waiting, cancelled = ThreadPool(1), anyio.Event(), anyio.Event()

    async def wait() -> None:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    task = asyncio.create_task(threads.run(from_thread.run, wait))
    with anyio.fail_after(TIMEOUT):
        await waiting.wait()
        task.cancel()
        await cancelled.wait()
        await wait_until_free(threads)
    assert task.cancelled()


@pytest.mark.parametrize("steps", range(6))
async def test_a_call_releases_its_slot_whenever_it_is_cancelled(steps: int) -> None:
    threads = ThreadPool(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, int)
        for _ in range(steps):
            await checkpoint()
        tasks.cancel_scope.cancel()
    await wait_until_free(threads)
    assert await threads.run(lambda: "free again") == "free again"


def test_a_thread_that_outlives_its_event_loop_ends_quietly(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, release, end = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []
    ends = _SlotHandover.end_thread_work

    def watched(handover: _SlotHandover) -> None:
        try:
            ends(handover)
        except BaseException as error:
            raised.append(error)
        finally:
            end.set()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(threads.run, lambda: (start.set(), release.wait(TIMEOUT)))
            while not start.is_set():
                await checkpoint()
            tasks.cancel_scope.cancel()

    monkeypatch.setattr(_SlotHandover, "end_thread_work", watched)
    threads = ThreadPool(1)
    anyio.run(main, backend=anyio_backend)
    release.set()
    assert end.wait(TIMEOUT)
    assert raised == []


async def test_a_thread_that_ends_while_its_loop_is_busy_does_not_wait_for_it() -> None:
    end = threading.Event()
    handover = _SlotHandover(end.set, lambda: None)
    assert handover.start_thread_work()
    handover.stop_waiting()
    worker = threading.Thread(target=handover.end_thread_work)
    worker.start()
    # This loop does nothing in the meantime.
    worker.join(TIMEOUT)
    assert not worker.is_alive()
    with anyio.fail_after(TIMEOUT):
        while not end.is_set():
            await checkpoint()


@pytest.mark.parametrize("error", [StopIteration(1), SystemExit(2), KeyboardInterrupt(), ValueError("x")], ids=repr)
async def test_an_error_of_a_thread_is_raised(error: BaseException) -> None:
    threads = ThreadPool(1)
    caught: list[BaseException] = []
    try:
        await threads.run(raise_error, error)
    except BaseException as seen:
        caught.append(seen)
    assert threads.busy_count == 0
    [seen] = caught
    # A coroutine cannot raise StopIteration itself.
    assert error in (seen, seen.__cause__)


async def test_abandoned_threads_are_counted_and_reported_when_they_occupy_all_slots() -> None:
    end, start = threading.Event(), threading.Semaphore(0)

    def hold(data: Any) -> None:
        start.release()
        assert end.wait(TIMEOUT)

    threads = ThreadPool(2)
    for expected in ({"slow": 1}, {"slow": 2}):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(threads.run, hold, None, name="slow"))
            while not start.acquire(blocking=False):
                await checkpoint()
            tasks.cancel_scope.cancel()
        assert threads.stuck == expected
    with pytest.raises(Overloaded, match=r"still run: slow \(2\)"):
        await threads.run(lambda: None)
    end.set()
    await wait_until_free(threads)
    assert threads.stuck == {}
    assert await threads.run(lambda: 1) == 1


async def test_a_callback_from_an_unknown_thread_finds_its_event_loop() -> None:
    start = anyio.Event()

    async def begin() -> None:
        start.set()

    async with anyio.create_task_group() as tasks:
        soon = make_call_soon()
        thread = threading.Thread(target=soon, args=(lambda: tasks.start_soon(begin) and None,))
        thread.start()
        with anyio.fail_after(TIMEOUT):
            await start.wait()
        thread.join(TIMEOUT)
