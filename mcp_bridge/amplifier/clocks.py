"""Clocks: how long a handler may still take to decide, which stands still while it waits for a person.

Most handlers decide without waiting for anything, so on asyncio a clock costs nothing until one does: its first step is
taken by hand. A cancel scope would have to be entered before that, and costs more than all the rest of an event.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import coroutine
from typing import Any, Protocol

import anyio

from mcp_bridge.loops import being_cancelled

_RUNNING: ContextVar[Clock | None] = ContextVar("clock", default=None)
_AGAIN = 0.05
"""Seconds after which a handler that has caught its cancellation is cancelled again."""


class TooLateError(Exception):
    """A handler has not decided in time."""


class Clock:
    """The clock of one handler, which has so many seconds."""

    __slots__ = ("_alarm", "_around", "_left", "_stopped")

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._stopped = 0
        self._alarm: _Alarm | None = None  # there once the handler waits
        self._around = _RUNNING.get()

    async def run(self, awaitable: Awaitable[Any]) -> Any:
        """What a handler comes to. Raises TooLateError, and whatever the handler raises."""
        steps = awaitable if inspect.iscoroutine(awaitable) else _waiting_for(awaitable)
        token = _RUNNING.set(self)
        try:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # trio
                return await self._in_scope(steps)
            try:
                waits = steps.send(None)
            except StopIteration as done:
                return done.value
            return await self._watched(steps, waits, loop)
        finally:
            _RUNNING.reset(token)

    def stop(self) -> None:
        """Let no time pass, nor for the handlers whose event this is a part of, until as many times started."""
        if not self._stopped and self._alarm is not None:
            self._left = self._alarm.stop()
        self._stopped += 1
        if self._around is not None:
            self._around.stop()

    def start(self) -> None:
        """Go on with what was left."""
        self._stopped -= 1
        if not self._stopped and self._alarm is not None:
            self._alarm.set(self._left)
        if self._around is not None:
            self._around.start()

    async def _in_scope(self, steps: Coroutine[Any, Any, Any]) -> Any:
        with anyio.CancelScope() as scope:
            self._begin(_OfScope(scope))
            return await steps
        raise TooLateError

    async def _watched(self, steps: Coroutine[Any, Any, Any], waits: Any, loop: asyncio.AbstractEventLoop) -> Any:
        task = asyncio.current_task()
        assert task is not None
        alarm = _OfTask(task, loop)
        self._begin(alarm)
        try:
            return await _going_on(steps, waits)
        except BaseException as error:
            if not alarm.rung or being_cancelled(error) or task.cancelling() > alarm.rung:
                raise
            raise TooLateError from error
        finally:
            alarm.end()

    def _begin(self, alarm: _Alarm) -> None:
        self._alarm = alarm
        if not self._stopped:
            alarm.set(self._left)


class _Alarm(Protocol):
    def set(self, seconds: float) -> None:
        """Cancel the handler once they have passed."""

    def stop(self) -> float:
        """Cancel nothing any more; the seconds that were left."""
        ...


class _OfScope:
    __slots__ = ("_scope",)

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def set(self, seconds: float) -> None:
        self._scope.deadline = anyio.current_time() + seconds

    def stop(self) -> float:
        left = self._scope.deadline - anyio.current_time()
        self._scope.deadline = math.inf
        return left


class _OfTask:
    """Cancels a task of asyncio, again and again until it is over; `rung` counts that."""

    __slots__ = ("_due", "_handle", "_loop", "_task", "rung")

    def __init__(self, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._task = task
        self._loop = loop
        self._due = math.inf
        self._handle: asyncio.TimerHandle | None = None
        self.rung = 0

    def set(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        if seconds != math.inf:
            self._handle = self._loop.call_later(max(0.0, seconds), self._ring)

    def stop(self) -> float:
        if self._handle is not None:
            self._handle.cancel()
        return self._due - self._loop.time()

    def end(self) -> None:
        """Leave the task as if it had never been cancelled."""
        self.stop()
        for _ in range(self.rung):
            self._task.uncancel()

    def _ring(self) -> None:
        self.rung += 1
        self._task.cancel()
        self._handle = self._loop.call_later(_AGAIN, self._ring)


@coroutine
def _going_on(steps: Coroutine[Any, Any, Any], waits: Any) -> Generator[Any, Any, Any]:
    """Await a coroutine that waits for something already."""
    try:
        while True:
            try:
                got = yield waits
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                waits = steps.throw(error)
            else:
                waits = steps.send(got)
    except StopIteration as done:
        return done.value


async def _waiting_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@contextmanager
def unhurried() -> Iterator[None]:
    """Wait for a person in the block: the time they take is not that of the handler that asks."""
    clock = _RUNNING.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.start()
