"""Runs the asyncio code of libraries from any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar, cast

from anyio import to_thread

from mcp_bridge._runtime import event_loop

T = TypeVar("T")


async def run_on_asyncio(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await the coroutine of `call`: directly on asyncio, elsewhere in a thread with its own loop.

    Cancellation is passed on to the coroutine.
    """
    if event_loop.is_on_asyncio():
        return await call()
    # The task of the thread adds itself here, or sees the cancellation if that came first.
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    cancellation = threading.Event()

    async def run_call() -> T:
        tasks.append((asyncio.get_running_loop(), cast("asyncio.Task[T]", asyncio.current_task())))
        if cancellation.is_set():
            raise asyncio.CancelledError
        return await call()

    try:
        return await to_thread.run_sync(lambda: asyncio.run(run_call()), abandon_on_cancel=True)
    finally:
        cancellation.set()
        for loop, task in tasks:
            # The loop may have ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
