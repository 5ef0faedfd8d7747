"""Deadlines that pause while a user is asked.

On asyncio, the deadlines of a pipeline share one timer of the event loop and cancel tasks as `asyncio.timeout` does,
because a cancel scope with a deadline costs as much as the rest of a call. Elsewhere each deadline is a cancel scope.
"""

from __future__ import annotations

import asyncio
import math
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio

from mcp_bridge._runtime.cancellation import REDELIVERY, is_only_cancellation, take_back_requests


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
        self._timer.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._timer.remove(self)
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
        self._active: dict[TaskDeadline, None] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._wakes = math.inf

    def add(self, deadline: TaskDeadline) -> None:
        self._active[deadline] = None
        if deadline.due < self._wakes:
            self.wake_by(deadline.due)

    def remove(self, deadline: TaskDeadline) -> None:
        del self._active[deadline]

    def wake_by(self, when: float) -> None:
        if when >= self._wakes:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._wakes = when
        self._handle = self.loop.call_at(when, self._wake, context=Context())  # the context of a call would live on

    def _wake(self) -> None:
        now, next_due = self.loop.time(), math.inf
        for deadline in self._active:
            if deadline.due <= now:
                deadline.cancel_task(now)
            next_due = min(next_due, deadline.due)
        self._handle, self._wakes = None, math.inf
        self.wake_by(next_due)
