"""Who cancels a task: the code that runs in it, or others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType, coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


class CancellationWatch:
    """Runs code in the current task, and tells cancellation by others from what the code does to its own task.

    Code that runs can cancel only its own task, others cancel a task only while it waits. So on asyncio the requests
    are counted at every step of the code. Anyio's scopes, `asyncio.timeout` and `Task.cancel` all count.

    Attributes:
        own_requests: How often the code has cancelled its own task.
    """

    __slots__ = ("_others", "_task", "own_requests")

    def __init__(self) -> None:
        self.own_requests = 0
        try:
            self._task = asyncio.current_task()
        except RuntimeError:  # trio, where code can cancel scopes only
            self._task = None
        self._others = self._task.cancelling() if self._task is not None else 0

    @coroutine
    def run(self, awaitable: Awaitable[T]) -> Generator[Any, Any, T]:
        """Await the awaitable, and count its own requests to cancel this task."""
        steps: Coroutine[Any, Any, T] = awaitable if type(awaitable) is CoroutineType else _wait_for(awaitable)
        task = self._task
        if task is None:
            return (yield from steps.__await__())
        resume, value = steps.send, None
        while True:
            before = task.cancelling()
            try:
                waits_for = resume(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                value = None  # an error would refer to itself through this frame
                if (after := task.cancelling()) != before:  # a timeout in the code takes back what it requested
                    self.own_requests = max(0, self.own_requests + after - before)
            try:
                value = yield waits_for
                resume = steps.send
            except BaseException as error:
                resume, value = steps.throw, error

    def is_cancelled_by_others(self, error: BaseException) -> bool:
        """Whether the code raised `error` because others cancel this task, or a scope around it."""
        cancelled = anyio.get_cancelled_exc_class()
        if isinstance(error, BaseExceptionGroup):
            if error.subgroup(cancelled) is None:
                return False
        elif not isinstance(error, cancelled):
            return False
        if anyio.current_effective_deadline() == float("-inf"):
            return True
        return self._task is not None and self._task.cancelling() - self.own_requests > self._others

    async def reset(self) -> None:
        """Take back the code's own requests: one that is pending would cancel whatever the task does next."""
        if not self.own_requests or self._task is None:
            return
        requests = self._task.cancelling()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._task.cancelling() > requests:  # another request, which came while the task waited
                raise
        while self.own_requests:
            self.own_requests -= 1
            self._task.uncancel()


async def _wait_for(awaitable: Awaitable[T]) -> T:
    return await awaitable
