"""Cancels code in a task, by other tasks or by a deadline, and finds out who has cancelled it.

A task of asyncio has one counter of requests to cancel it (`Task.cancelling`), and many parties add to it: other tasks,
anyio's scopes, `asyncio.timeout`, and the running code itself. Each class here counts its own requests, and takes back
exactly these (`Task.uncancel`). Requests beyond them come from others, and their cancellation has to pass:

- `CancellableBlock`: another task cancels a block, as a client cancels its request.
- `Deadline` and `TaskDeadline`: time cancels a block. All deadlines of a `DeadlineClock` share one timer of the event
  loop. They pause while a user is asked.
- `CancellationWatch`: third-party code raises CancelledError. If it has cancelled its own task, the call fails and the
  server runs on. If others have cancelled the task, the error has to pass.

On asyncio, blocks and deadlines cancel their task as `asyncio.timeout` does, because a cancel scope with a deadline
costs as much as the rest of a call. On trio, each of them is a cancel scope.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType, TracebackType, coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

REDELIVERY = 1.0
"""Seconds until code that still runs after its cancellation is cancelled again. It may have caught the first error."""


def is_being_cancelled(error: BaseException) -> bool:
    """Whether `error` is the cancellation of the current anyio scope, and not an error of the code itself."""
    return has_cancellation(error) and anyio.current_effective_deadline() == float("-inf")


def has_cancellation(error: BaseException) -> bool:
    """Whether an error is a cancellation, or a group with one."""
    cancelled_error = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(cancelled_error) is not None
    return isinstance(error, cancelled_error)


class CancellableBlock:
    """A block in the current task. Other tasks can cancel it, and the code after the block runs on.

    On asyncio, the block costs a third of a cancel scope. Shields do not delay its cancellation, and a block that does
    not end is cancelled again after a second.
    """

    # Class attributes are the initial values, so that entering a block sets only the others.
    is_cancelled = False
    _requests = 0
    _other_requests = 0
    _task: asyncio.Task[Any] | None = None
    _scope: anyio.CancelScope | None = None
    _timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> CancellableBlock:
        try:
            self._task = asyncio.current_task()
        except RuntimeError:
            # This is trio.
            self._scope = anyio.CancelScope()
            self._scope.__enter__()
        else:
            assert self._task is not None
            self._other_requests = self._task.cancelling()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._scope is not None:
            return bool(self._scope.__exit__(error_type, error, traceback))
        task, self._task = self._task, None
        if not self._requests or task is None:
            return False
        if self._timer is not None:
            self._timer.cancel()
        return take_back_requests(task, self._requests, self._other_requests) and is_only_cancellation(error)

    def cancel(self) -> None:
        """Cancel the block. After its end, this does nothing."""
        self.is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()
        elif self._task is not None and not self._requests:
            if self._task is asyncio.current_task():
                # A request by the task itself would stay pending if the block ended without waiting again. The callback
                # does nothing after the end of the block.
                asyncio.get_running_loop().call_soon(self._cancel_task)
            else:
                self._cancel_task()

    def is_interrupted(self, error: BaseException) -> bool:
        """Whether `error` is a cancellation of the whole task by others, with `Task.cancel` of asyncio."""
        if self._task is None or not isinstance(error, asyncio.CancelledError):
            return False
        return self._task.cancelling() > self._other_requests + self._requests

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._requests += 1
            self._task.cancel()
            self._timer = self._task.get_loop().call_later(REDELIVERY, self._cancel_task)


def take_back_requests(task: asyncio.Task[Any], requests: int, other_requests: int) -> bool:
    """Take back requests to cancel a task. Return whether no more than `other_requests` remain.

    If more remain, others have cancelled the task in the meantime, and the cancellation has to pass.
    """
    remaining = task.cancelling()
    for _ in range(requests):
        remaining = task.uncancel()
    return remaining <= other_requests


def is_only_cancellation(error: BaseException | None) -> bool:
    """Whether an error is a cancellation of asyncio, or a group that contains nothing else."""
    if isinstance(error, BaseExceptionGroup):
        _, other_errors = error.split(asyncio.CancelledError)
        return other_errors is None
    return isinstance(error, asyncio.CancelledError)


class CancellationWatch:
    """Runs code in the current task, and distinguishes cancellation by others from cancellation by the code.

    A step of a coroutine runs without interruption. So a request to cancel the task comes from the code if it is made
    during a step, and from others if it is made between two steps. On asyncio, the requests are counted at each step;
    those of anyio's scopes, `asyncio.timeout` and `Task.cancel` all count.

    Attributes:
        own_requests: How often the code has cancelled its own task.
    """

    __slots__ = ("_other_requests", "_task", "own_requests")

    def __init__(self) -> None:
        self.own_requests = self._other_requests = 0
        try:
            self._task = asyncio.current_task()
        except RuntimeError:
            # On trio, code can only cancel scopes.
            self._task = None
        if self._task is not None:
            self._other_requests = self._task.cancelling()

    @coroutine
    def run(self, awaitable: Awaitable[T]) -> Generator[Any, Any, T]:
        """Await the awaitable, and count the requests of its code to cancel this task.

        This does what `await` does, one step after another, to compare the counter before and after each step.
        """
        steps: Coroutine[Any, Any, T]
        if type(awaitable) is CoroutineType:
            steps = awaitable
        else:
            steps = _wait_for(awaitable)
        task = self._task
        if task is None:
            return (yield from steps.__await__())
        resume, value = steps.send, None
        while True:
            before = task.cancelling()
            try:
                awaited = resume(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                # If `value` is an error, its traceback has this frame, which would refer to the error again.
                value = None
                # The number decreases when a timeout in the code takes back its requests.
                after = task.cancelling()
                if after != before:
                    self.own_requests = max(0, self.own_requests + after - before)
            try:
                value = yield awaited
                resume = steps.send
            except BaseException as error:
                resume, value = steps.throw, error

    def is_cancelled_by_others(self, error: BaseException) -> bool:
        """Whether `error` is a cancellation of this task, or of a scope around it, by others."""
        if not has_cancellation(error):
            return False
        if anyio.current_effective_deadline() == float("-inf"):
            return True
        return self._task is not None and self._task.cancelling() - self.own_requests > self._other_requests

    async def reset(self) -> None:
        """Take back the requests of the code. They would otherwise cancel the next step of the task."""
        if not self.own_requests or self._task is None:
            return
        requests = self._task.cancelling()
        try:
            # A pending request raises its error here.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Others have cancelled the task while it waited.
            if self._task.cancelling() > requests:
                raise
        while self.own_requests:
            self.own_requests -= 1
            self._task.uncancel()


class Deadline:
    """The deadline of a cancel scope, for trio. It has the interface of `TaskDeadline`."""

    __slots__ = ("_remaining", "scope")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self._remaining = 0.0

    def __enter__(self) -> Deadline:
        self.scope.__enter__()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(self.scope.__exit__(error_type, error, traceback))

    @property
    def deadline(self) -> float:
        """The end of the block on the event loop's clock."""
        return float(self.scope.deadline)

    @property
    def has_passed(self) -> bool:
        """Whether the deadline has cancelled its block."""
        return bool(self.scope.cancel_called)

    def restart(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now."""
        self.scope.deadline = anyio.current_time() + seconds

    def pause(self) -> None:
        """Stop the clock."""
        self._remaining = self.scope.deadline - anyio.current_time()
        self.scope.deadline = float("inf")

    def resume(self) -> None:
        """Start the clock again, with the time that remained."""
        self.scope.deadline = anyio.current_time() + self._remaining


class DeadlineClock:
    """Starts deadlines. On asyncio, all of them share one timer."""

    def __init__(self) -> None:
        self._timer: _SharedTimer | None = None

    def start_deadline(self, seconds: float, outer: float | None = None) -> Deadline | TaskDeadline:
        """Return a deadline in `seconds`, or at `outer` if that is earlier, as a context manager.

        When the deadline passes, the block is cancelled and ends without an error:

            with clock.start_deadline(5):
                return await work()
            raise TooLate  # reached only after 5 seconds
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Trio has no loop of asyncio.
            end = anyio.current_time() + seconds
            if outer is not None:
                end = min(end, outer)
            return Deadline(anyio.CancelScope(deadline=end))
        timer = self._timer
        if timer is None or timer.loop is not loop:
            timer = self._timer = _SharedTimer(loop)
        end = loop.time() + seconds
        if outer is not None and outer < end:
            end = outer
        return TaskDeadline(timer, end)


class TaskDeadline:
    """The deadline of a block in a task of asyncio.

    Shields do not delay it, and a block that does not end is cancelled again after a second.

    Attributes:
        deadline: The end of the block on the event loop's clock; infinite while the deadline is paused.
        due: The time of the next cancellation: the deadline, and after it that of the repetition.
    """

    __slots__ = ("_other_requests", "_remaining", "_requests", "_task", "_timer", "deadline", "due")

    def __init__(self, timer: _SharedTimer, deadline: float) -> None:
        self._timer = timer
        self.deadline = self.due = deadline

    def __enter__(self) -> TaskDeadline:
        task: Any = asyncio.current_task(self._timer.loop)
        self._task: asyncio.Task[Any] = task
        self._requests = 0
        self._other_requests = task.cancelling()
        self._timer.active[self] = None
        if self.due < self._timer.wakes:
            self._timer.wake_by(self.due)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        del self._timer.active[self]
        if not self._requests:
            return False
        return take_back_requests(self._task, self._requests, self._other_requests) and is_only_cancellation(error)

    def cancel_task(self, time: float) -> None:
        """Cancel the task. The timer calls this again if the block still runs after `REDELIVERY` seconds."""
        self._requests += 1
        self.due = time + REDELIVERY
        self._task.cancel()

    @property
    def has_passed(self) -> bool:
        """Whether the deadline has cancelled its block."""
        return self._requests > 0

    def restart(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now."""
        self.deadline = self.due = self._timer.loop.time() + seconds
        self._timer.wake_by(self.due)

    def pause(self) -> None:
        """Stop the clock."""
        self._remaining = self.deadline - self._timer.loop.time()
        self.deadline = self.due = math.inf

    def resume(self) -> None:
        """Start the clock again, with the time that remained."""
        self.deadline = self.due = self._timer.loop.time() + self._remaining
        self._timer.wake_by(self.due)


class _SharedTimer:
    """One timer of an event loop for many deadlines, so that a call only adds its deadline to a dict and removes it.

    The timer wakes at the time of the nearest deadline so far (`wakes`), even if that call has ended, and then sets
    itself to the nearest remaining one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.active: dict[TaskDeadline, None] = {}
        self._handle: asyncio.TimerHandle | None = None
        self.wakes = math.inf

    def wake_by(self, when: float) -> None:
        """Make the timer wake at this time or earlier."""
        if when >= self.wakes:
            return
        if self._handle is not None:
            self._handle.cancel()
        self.wakes = when
        # The handle would keep the context of the current call alive, with the values of its context variables.
        self._handle = self.loop.call_at(when, self._wake, context=Context())

    def _wake(self) -> None:
        time = self.loop.time()
        next_due = math.inf
        for deadline in self.active:
            if deadline.due <= time:
                deadline.cancel_task(time)
            next_due = min(next_due, deadline.due)
        self._handle = None
        self.wakes = math.inf
        self.wake_by(next_due)


async def _wait_for(awaitable: Awaitable[T]) -> T:
    return await awaitable
