"""Runs asyncio code from any event loop: directly on asyncio, elsewhere in a thread with its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from anyio import to_thread

from mcp_bridge.runtime import event_loop

T = TypeVar("T")


async def run_on_asyncio(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await the coroutine that `call` makes: directly on asyncio, elsewhere in a thread with its own loop.

    Cancellation is passed on to the coroutine.
    """
    if event_loop.is_on_asyncio():
        return await call()
    elsewhere = _ThreadRunner(call)
    try:
        return await to_thread.run_sync(elsewhere.run, abandon_on_cancel=True)
    finally:
        elsewhere.cancel()


class _ThreadRunner(Generic[T]):
    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def run(self) -> T:
        return asyncio.run(self._run_call())

    def cancel(self) -> None:
        self._cancelled = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(task.cancel)

    async def _run_call(self) -> T:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._cancelled:
            raise asyncio.CancelledError
        return await self._call()
