"""A bounded pool for synchronous handlers: a place is taken until the thread is really done, not until we give up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import current_token

T = TypeVar("T")
Soon = Callable[[Callable[[], None]], object]


def from_any_thread() -> Soon:
    """How any thread has this loop call something; RuntimeError once the loop has ended.

    Not anyio's way: that waits for an answer, from a loop that may be ending, or waiting for the thread itself.
    """
    loop: Any = current_token().native_token
    soon: Soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    return soon


class Threads:
    """At most `size` synchronous handlers at once. A cancelled call stops waiting; its thread keeps its place."""

    def __init__(self, size: int) -> None:
        self._places = anyio.CapacityLimiter(size)
        self._unbounded = anyio.CapacityLimiter(float("inf"))

    @property
    def busy(self) -> int:
        """How many threads are at work now, abandoned ones included."""
        return int(self._places.borrowed_tokens)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Run `function(*args)` in a thread, with this task's context variables, and return its answer."""
        job = object()
        await self._places.acquire_on_behalf_of(job)
        handover = _Handover(lambda: self._places.release_on_behalf_of(job), from_any_thread())
        context = copy_context()

        def work() -> tuple[T | None, BaseException | None]:
            if not handover.thread_starts():
                return None, None
            # Errors travel as values: a future cannot carry a StopIteration, and a SystemExit would end the loop.
            try:
                return context.run(function, *args), None
            except BaseException as error:
                return None, error
            finally:
                handover.thread_ends()

        try:
            answer, error = await to_thread.run_sync(work, limiter=self._unbounded, abandon_on_cancel=True)
        finally:
            handover.waiter_leaves()
        if error is not None:
            raise error
        return cast("T", answer)


class _Handover:
    """Who gives the place back: the thread if it is at work when the waiting task leaves, else the waiting task."""

    def __init__(self, release: Callable[[], None], soon: Soon) -> None:
        self._release = release
        self._soon = soon
        self._lock = threading.Lock()
        self._working = self._left = False

    def thread_starts(self) -> bool:
        """Whether anybody still waits for the work; a cancelled call may leave before its thread begins."""
        with self._lock:
            self._working = not self._left
            return self._working

    def thread_ends(self) -> None:
        with self._lock:
            self._working = False
            late = self._left
        if late:
            with suppress(RuntimeError):  # the loop is gone, and with it the pool
                self._soon(self._release)

    def waiter_leaves(self) -> None:
        with self._lock:
            self._left = True
            mine = not self._working
        if mine:
            self._release()
