"""Synchronous handlers in threads: bounded, with their caller's context variables, and never lost."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from anyio import from_thread, to_thread
from anyio.lowlevel import checkpoint, current_token

from mcp_bridge import ToolCall, ToolRegistry
from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime import worker_threads
from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.thread_pool import ThreadPool, make_call_soon
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


async def test_a_synchronous_handler_may_use_event_loops() -> None:
    async def double(number: int) -> int:
        await checkpoint()
        return 2 * number

    loop = current_token().native_token

    def use_loops(data: Any) -> dict[str, int]:
        results = {
            "from_thread": from_thread.run(double, 1),
            "asyncio.run": asyncio.run(double_on_asyncio(2)),
            "anyio.run": anyio.run(double, 3),
        }
        if isinstance(loop, asyncio.AbstractEventLoop):
            results["run_coroutine_threadsafe"] = asyncio.run_coroutine_threadsafe(double(4), loop).result(TIMEOUT)
        with from_thread.start_blocking_portal() as portal:
            results["portal"] = portal.call(double, 5)
        return results

    async def double_on_asyncio(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    expected = {"from_thread": 2, "asyncio.run": 4, "anyio.run": 6, "portal": 10}
    if is_on_asyncio():
        expected["run_coroutine_threadsafe"] = 8
    assert await dispatch(make_registry(use_loops, 1)) == expected


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
    anyio_backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    release, thread = threading.Event(), Future[threading.Thread]()

    def hold() -> None:
        thread.set_result(threading.current_thread())
        assert release.wait(TIMEOUT)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(threads.run, hold)
            while not thread.done():
                await checkpoint()
            tasks.cancel_scope.cancel()

    threads = ThreadPool(1)
    anyio.run(main, backend=anyio_backend)
    release.set()
    thread.result().join(TIMEOUT)
    assert not thread.result().is_alive()
    assert capsys.readouterr().err == ""


async def test_a_function_that_ends_while_its_loop_is_busy_does_not_wait_for_it() -> None:
    threads = ThreadPool(2)
    start, is_blocked, end = threading.Event(), threading.Event(), threading.Event()

    def wait_for_block() -> None:
        start.set()
        assert is_blocked.wait(TIMEOUT)
        end.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, wait_for_block)
        while not start.is_set():
            await checkpoint()
        # This loop does nothing in the meantime.
        is_blocked.set()
        assert end.wait(TIMEOUT)


async def test_short_functions_share_few_threads_and_blocked_ones_have_their_own() -> None:
    threads = ThreadPool(64)
    barrier = threading.Barrier(64)

    async def count_threads(function: Any) -> int:
        names = set()

        async def run() -> None:
            names.add(await threads.run(function))

        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for _ in range(64):
                    tasks.start_soon(run)
        return len(names)

    def meet() -> int:
        barrier.wait(TIMEOUT)
        return threading.get_ident()

    # It is usually one or two, but the system may interrupt a thread during its function.
    assert await count_threads(threading.get_ident) <= 16
    assert await count_threads(meet) == 64


async def test_arguments_and_results_are_freed_without_garbage_collection() -> None:
    class Value:
        pass

    threads, values = ThreadPool(1), weakref.WeakSet[Value]()

    def replace(value: Value) -> Value:
        values.add(value)
        result = Value()
        values.add(result)
        return result

    gc.disable()
    try:
        await threads.run(replace, Value())
        # The thread frees the last references after it has reported the result.
        with anyio.fail_after(TIMEOUT):
            while len(values):
                await threads.run(int)
    finally:
        gc.enable()


async def test_nothing_is_left_of_a_thread_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def count_tasks() -> int:
        if is_on_asyncio():
            return len(asyncio.all_tasks())
        return trio.lowlevel.current_statistics().tasks_living

    monkeypatch.setattr(worker_threads, "IDLE_TIMEOUT", 0.01)
    tasks = count_tasks()
    await ThreadPool(1).run(int)
    with anyio.fail_after(TIMEOUT):
        while count_tasks() > tasks:
            await checkpoint()


async def test_a_function_waits_for_a_thread_when_the_last_one_is_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_TIMEOUT", 0.0005)
    threads = ThreadPool(1)
    with anyio.fail_after(TIMEOUT):
        for number in range(200):
            assert await threads.run(int, number) == number
            for _ in range(number % 20):
                await checkpoint()


async def test_a_function_fails_if_the_system_has_no_more_threads(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio may have an idle thread of an earlier test")

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = ThreadPool(1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.run(int)
    assert await threads.run(int) == 0


async def test_no_function_is_lost_if_others_cancel_all_other_tasks(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if anyio_backend == "trio":
        pytest.skip("only asyncio lets others cancel tasks")
    monkeypatch.setattr(worker_threads, "IDLE_TIMEOUT", 0.0003)
    threads = ThreadPool(4)

    async def call_often(number: int) -> None:
        for _ in range(50):
            assert await threads.run(time.sleep if number % 2 else int, 0) in (None, 0)

    tasks = asyncio.all_tasks()
    calls = {asyncio.create_task(call_often(number)) for number in range(8)}
    with anyio.fail_after(TIMEOUT):
        while not all(call.done() for call in calls):
            # The first time, no host of a thread has had its first step.
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - calls - tasks:
                task.cancel()
            await asyncio.sleep(0.001)
    for call in calls:
        call.result()


async def test_threads_serve_one_event_loop_after_another(anyio_backend: str) -> None:
    threads = ThreadPool(1)

    async def find_loop() -> object:
        return current_token().native_token

    async def run() -> tuple[object, object]:
        return await find_loop(), await threads.run(from_thread.run, find_loop)

    for _ in range(2):
        outer, inner = await to_thread.run_sync(partial(anyio.run, run, backend=anyio_backend))
        assert outer is inner
    assert await threads.run(from_thread.run, find_loop) is await find_loop()


async def test_a_waiting_function_knows_that_its_call_was_cancelled() -> None:
    threads, start = ThreadPool(1), threading.Event()
    caught = Future[BaseException]()

    def wait_for_cancellation() -> None:
        start.set()
        try:
            while True:
                from_thread.check_cancelled()
        except BaseException as error:
            caught.set_result(error)
            raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, wait_for_cancellation)
        while not start.is_set():
            await checkpoint()
        tasks.cancel_scope.cancel()
    await wait_until_free(threads)
    assert type(caught.result(TIMEOUT)).__name__ in ("CancelledError", "Cancelled")
    # The next function has a thread that is not cancelled.
    await threads.run(from_thread.check_cancelled)


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
