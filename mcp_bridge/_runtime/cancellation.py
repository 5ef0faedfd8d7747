"""Cancellation of the code in a task by others or by a deadline, and who requested it.

On asyncio, blocks and deadlines cancel their task as `asyncio.timeout` does, because a cancel scope with a deadline
costs as much as the rest of a call. The deadlines of a pipeline share one timer of the event loop, and pause while a
user is asked. On trio, each of them is a cancel scope.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType, TracebackType, coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

REDELIVERY = 1.0
"""Seconds until code that has received its cancellation and still runs is cancelled again."""


class CancellableBlock:
    """A block in the current task that other tasks can cancel; the code after the block runs on.

    On trio it is a cancel scope. On asyncio it cancels the task as `asyncio.timeout` does, for a third of the cost of a
    scope: shields do not hold it up, and a block that runs on is cancelled again after a second.
    """

    __slots__ = ("_others", "_requests", "_scope", "_task", "_timer", "is_cancelled")

    def __init__(self) -> None:
        self.is_cancelled = False
        self._requests = 0
        self._task: asyncio.Task[Any] | None = None
        self._scope: anyio.CancelScope | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> CancellableBlock:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # trio
            task = None
        if task is None:
            self._scope = anyio.CancelScope()
            self._scope.__enter__()
        else:
            self._task, self._others = task, task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._scope is not None:
            return bool(self._scope.__exit__(kind, error, traceback))
        task, self._task = self._task, None
        if not self._requests or task is None:
            return False
        if self._timer is not None:
            self._timer.cancel()
        return take_back_requests(task, self._requests, self._others) and is_only_cancellation(error)

    def cancel(self) -> None:
        """Cancel the block. Nothing happens after its end."""
        self.is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()
        elif self._task is not None and not self._requests:
            if self._task is asyncio.current_task():  # a request would stay pending if the block ended first
                asyncio.get_running_loop().call_soon(self._cancel_task)
            else:
                self._cancel_task()

    def is_interrupted(self, error: BaseException) -> bool:
        """Whether the code in the block raised `error` because others cancel the task by the means of asyncio."""
        if self._task is None or not isinstance(error, asyncio.CancelledError):
            return False
        return self._task.cancelling() > self._others + self._requests

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._requests += 1
            self._task.cancel()
            self._timer = self._task.get_loop().call_later(REDELIVERY, self._cancel_task)


def take_back_requests(task: asyncio.Task[Any], requests: int, others: int) -> bool:
    """Take back requests to cancel a task. Return False if more than `others` are left: then others cancel it too."""
    left = task.cancelling()
    for _ in range(requests):
        left = task.uncancel()
    return left <= others


def is_only_cancellation(error: BaseException | None) -> bool:
    """Whether nothing but the cancellation of a task of asyncio was raised."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(asyncio.CancelledError)[1] is None
    return isinstance(error, asyncio.CancelledError)


class CancellationWatch:
    """Runs code in the current task, and distinguishes cancellation by others from what the code does to the task.

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


@coroutine
def cancel_scope_first(scope: anyio.CancelScope, steps: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await the coroutine. When this task is cancelled, cancel the scope before the coroutine receives that.

    The cancellation of a task of asyncio does not reach other tasks in the scopes of anyio that it is in. Later, when
    the coroutine has left its own scopes, `scope` no longer reaches them either.
    """
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            waits_for = resume(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            value = None  # an error would refer to itself through this frame
        try:
            value = yield waits_for
            resume = steps.send
        except BaseException as error:
            scope.cancel()
            resume, value = steps.throw, error


class Deadline:
    """The deadline of a cancel scope, that of a running call or of hooks that decide about one."""

    __slots__ = ("_left", "scope")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self._left = 0.0

    def __enter__(self) -> Deadline:
        self.scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(self.scope.__exit__(kind, error, traceback))

    @property
    def deadline(self) -> float:
        """The time on the event loop's clock at which the call has to end."""
        return float(self.scope.deadline)

    @property
    def has_passed(self) -> bool:
        return bool(self.scope.cancel_called)

    def restart(self, seconds: float) -> None:
        self.scope.deadline = anyio.current_time() + seconds

    def pause(self) -> None:
        self._left = self.scope.deadline - anyio.current_time()
        self.scope.deadline = float("inf")

    def resume(self) -> None:
        self.scope.deadline = anyio.current_time() + self._left


class DeadlineClock:
    """Starts deadlines, all of which share one timer on asyncio."""

    def __init__(self) -> None:
        self._timer: _SharedTimer | None = None

    def start_deadline(self, seconds: float, outer: float | None = None) -> Deadline | TaskDeadline:
        """Return a deadline in `seconds`, but not after `outer`, as a context manager.

        The block ends early when the deadline passes. The code after the block then knows, because the block returns
        otherwise.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # trio
            end = anyio.current_time() + seconds
            return Deadline(anyio.CancelScope(deadline=end if outer is None else min(end, outer)))
        timer = self._timer
        if timer is None or timer.loop is not loop:
            timer = self._timer = _SharedTimer(loop)
        end = loop.time() + seconds
        return TaskDeadline(timer, end if outer is None or end < outer else outer)


class TaskDeadline:
    """The deadline of a block in a task of asyncio.

    Unlike a cancel scope it has no shield: a task that runs on receives its cancellation again after a second.
    """

    __slots__ = ("_left", "_others", "_requests", "_task", "_timer", "deadline", "due")

    def __init__(self, timer: _SharedTimer, deadline: float) -> None:
        self._timer = timer
        self.deadline = self.due = deadline

    def __enter__(self) -> TaskDeadline:
        task: Any = asyncio.current_task(self._timer.loop)
        self._task: asyncio.Task[Any] = task
        self._requests = 0
        self._others = task.cancelling()
        self._timer.active[self] = None
        if self.due < self._timer.wakes:
            self._timer.wake_by(self.due)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        del self._timer.active[self]
        if not self._requests:
            return False
        return take_back_requests(self._task, self._requests, self._others) and is_only_cancellation(error)

    def cancel_task(self, now: float) -> None:
        """Cancel the task, again after a while if it is still in the block then."""
        self._requests += 1
        self.due = now + REDELIVERY
        self._task.cancel()

    @property
    def has_passed(self) -> bool:
        return self._requests > 0

    def restart(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now."""
        self.deadline = self.due = self._timer.loop.time() + seconds
        self._timer.wake_by(self.due)

    def pause(self) -> None:
        self._left = self.deadline - self._timer.loop.time()
        self.deadline = self.due = math.inf

    def resume(self) -> None:
        self.deadline = self.due = self._timer.loop.time() + self._left
        self._timer.wake_by(self.due)


class _SharedTimer:
    """One timer of an event loop for many deadlines: a call inserts, removes and compares, and no timer is created.

    It wakes for the nearest deadline it has seen, even if that call has ended, and then looks for the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.active: dict[TaskDeadline, None] = {}
        self._handle: asyncio.TimerHandle | None = None
        self.wakes = math.inf

    def wake_by(self, when: float) -> None:
        if when >= self.wakes:
            return
        if self._handle is not None:
            self._handle.cancel()
        self.wakes = when
        self._handle = self.loop.call_at(when, self._wake, context=Context())  # the context of a call would live on

    def _wake(self) -> None:
        now, next_due = self.loop.time(), math.inf
        for deadline in self.active:
            if deadline.due <= now:
                deadline.cancel_task(now)
            next_due = min(next_due, deadline.due)
        self._handle, self.wakes = None, math.inf
        self.wake_by(next_due)


async def _wait_for(awaitable: Awaitable[T]) -> T:
    return await awaitable
