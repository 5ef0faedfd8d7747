"""Owners of tasks. At its end, an owner ends all its tasks.

On asyncio they use plain tasks, at a seventh of the cost of a task in a group of anyio. Eager tasks (Python 3.12) would
save nothing with 32 calls in flight, and 2 to 10 % of the CPU of a single call. The server has an owner for the
requests of clients and for its own work in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio

from mcp_bridge._runtime.cancellation import is_being_cancelled
from mcp_bridge._runtime.event_loop import ResilientLoop, hide_task, is_on_asyncio

logger = logging.getLogger("mcp_bridge.tasks")

RETRY_INTERVAL = 0.1
"""Seconds after which an ending owner cancels its tasks again, and new ones that they have started."""
CLEANUP_TIMEOUT = 5.0
"""Seconds for the cleanup of cancelled tasks in shielded scopes, before asyncio interrupts it too."""

Cancel = Callable[[], object]
"""Cancels the function of a task."""


class TaskOwner(Protocol):
    """Starts tasks. They end with their owner."""

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any, cancel: Cancel | None = None) -> None:
        """Start `function(*args)` as a task. Its exception is logged and ends nothing else.

        At the end of the owner, `cancel` is called to cancel the function. The function always begins. Without
        `cancel`, the event loop cancels the task: on asyncio, this also interrupts shielded scopes, and functions
        before their first step.
        """


@asynccontextmanager
async def own_tasks(*, cleanup: float = CLEANUP_TIMEOUT) -> AsyncIterator[TaskOwner]:
    """Yield an owner of tasks. At the end of the block, its tasks are cancelled and awaited.

    After `cleanup` seconds, asyncio interrupts shielded scopes too. On trio, nothing can.
    """
    if is_on_asyncio():
        owner = AsyncioTasks()
        try:
            yield owner
        finally:
            await owner.cancel_all(cleanup)
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
        self._hides_tasks = isinstance(self._loop, ResilientLoop)
        self._tasks: dict[int, tuple[asyncio.Task[Any], Cancel]] = {}
        self._last = 0

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any, cancel: Cancel | None = None) -> None:
        self._last += 1
        # This costs less than `create_task`, and takes no factory of tasks that a tool may have set.
        task = asyncio.Task(self._run_task(self._last, function, *args), loop=self._loop)
        if self._hides_tasks:
            hide_task(task)
        self._tasks[self._last] = task, cancel or task.cancel

    async def cancel_all(self, cleanup: float) -> None:
        """Cancel all tasks, again and again until they have ended."""
        deadline = self._loop.time() + cleanup
        interruption: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while tasks := [(task, cancel) for task, cancel in self._tasks.values() if not task.done()]:
                is_late = self._loop.time() >= deadline
                for task, cancel in tasks:
                    cancel()
                    if is_late:
                        task.cancel()
                try:
                    await asyncio.wait([task for task, _ in tasks], timeout=RETRY_INTERVAL)
                except asyncio.CancelledError as error:
                    # anyio's shield does not stop a cancellation by asyncio. It is raised after the end of all tasks.
                    interruption = error
        if interruption is not None:
            raise interruption

    async def _run_task(self, number: int, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        try:
            await function(*args)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            logger.error("a task of the server failed", exc_info=error)
        finally:
            # This costs less than a callback of the task.
            del self._tasks[number]


class GroupTasks:
    """An owner of tasks in a task group of anyio."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any, cancel: Cancel | None = None) -> None:
        self._group.start_soon(self._run_task, function, *args)

    async def _run_task(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        try:
            await function(*args)
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            logger.error("a task of the server failed", exc_info=error)


class Notifier:
    """Wakes the tasks that wait for the next notification. A notification costs nothing while no task waits."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait_for_notification(self) -> None:
        """Wait until `notify` is called."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


async def close_at_end(close: Callable[[], Awaitable[None]]) -> None:
    """Wait until cancelled, and then run `close` in a shield."""
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await close()
