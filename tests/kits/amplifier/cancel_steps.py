"""Cancels code at its n-th step. A step ends when a task of the event loop suspends.

A test repeats a cancellation with 0, 1, 2, ... until the code ends before, so it covers every place for a cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import sniffio

from mcp_bridge._runtime.cancellation import CancellableBlock


class _CountedSteps:
    """A coroutine with a report of each step."""

    def __init__(self, inner: Coroutine[Any, Any, Any], on_step: Callable[[], None]) -> None:
        self._inner = inner
        self._on_step = on_step

    def __await__(self) -> Generator[Any, Any, Any]:
        resume, value = self._inner.send, None
        while True:
            try:
                waits_for = resume(value)
            except StopIteration as stop:
                return stop.value
            self._on_step()
            try:
                value = yield waits_for
                resume = self._inner.send
            except BaseException as error:
                resume, value = self._inner.throw, error  # type: ignore[assignment]


@contextmanager
def report_steps(on_step: Callable[[], None]) -> Iterator[None]:
    """Call `on_step` after each step of the tasks of the block."""
    if sniffio.current_async_library() == "trio":
        import trio

        class Steps(trio.abc.Instrument):
            def after_task_step(self, task: trio.lowlevel.Task) -> None:
                on_step()

        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(steps)
        return

    loop = asyncio.get_running_loop()

    def create_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        async def run() -> Any:
            return await _CountedSteps(coroutine, on_step)

        return asyncio.Task(run(), loop=loop, **options)

    loop.set_task_factory(create_task)
    try:
        yield
    finally:
        loop.set_task_factory(None)


async def cancel_at_step(number: int, run: Callable[[], Awaitable[Any]], how: str = "server") -> bool:
    """Run something and cancel it at this step; return whether it ended before.

    `how` is `server` for the cancellation of a request by a server, or `scope` for a cancel scope.
    """
    block: Any = CancellableBlock() if how == "server" else anyio.CancelScope()
    count, is_running, has_ended = 0, False, False

    def count_step() -> None:
        nonlocal count
        if not is_running:
            return
        count += 1
        if count == number + 1:
            block.cancel()

    async def run_in_block() -> None:
        nonlocal is_running, has_ended
        with block:
            is_running = True
            await run()
            has_ended = True
        is_running = False

    with report_steps(count_step):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_in_block)
    return has_ended
