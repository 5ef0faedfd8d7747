"""Owners of tasks: plain tasks on asyncio, which cost a seventh of a task in a group of anyio; a nursery on trio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio

from mcp_bridge.runtime.event_loop import is_on_asyncio

logger = logging.getLogger("mcp_bridge.tasks")

RETRY_INTERVAL = 0.1
"""Seconds after which tasks that go on in spite of their cancellation are cancelled again."""


class TaskOwner(Protocol):
    """Starts tasks, which end with their owner."""

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start `function(*args)` as a task. An exception that it raises is logged and ends nothing else."""


@asynccontextmanager
async def own_tasks() -> AsyncIterator[TaskOwner]:
    """Yield an owner of tasks. At the end of the block, its tasks are cancelled and awaited."""
    if is_on_asyncio():
        owner = AsyncioTasks()
        try:
            yield owner
        finally:
            await owner.cancel_all()
        return
    async with anyio.create_task_group() as group:
        try:
            yield GroupTasks(group)
        finally:
            group.cancel_scope.cancel()


class AsyncioTasks:
    """An owner of tasks on asyncio."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        task: asyncio.Task[Any] = self._loop.create_task(function(*args))  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._discard)

    async def cancel_all(self) -> None:
        """Cancel all tasks, until they have ended."""
        with anyio.CancelScope(shield=True):
            while self._tasks:
                for task in self._tasks:
                    task.cancel()
                await asyncio.wait(self._tasks, timeout=RETRY_INTERVAL)

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the server failed", exc_info=error)


class GroupTasks:
    """An owner of tasks in a task group of anyio."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._group.start_soon(_run_logged, function, *args)


async def _run_logged(function: Callable[..., Awaitable[Any]], *args: Any) -> None:
    try:
        await function(*args)
    except Exception as error:
        logger.error("a task of the server failed", exc_info=error)
