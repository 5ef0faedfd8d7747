"""A bounded pool for synchronous handlers: a slot is taken until the thread is done, not until the call times out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import current_token

from mcp_bridge.contracts.errors import Overloaded
from mcp_bridge.runtime.limiter import Token, Tokens

T = TypeVar("T")
Soon = Callable[[Callable[[], None]], object]


def from_any_thread() -> Soon:
    """How any thread, or signal handler, has this loop call something; RuntimeError once the loop has ended.

    What is called finds itself in this loop, whoever calls: in the context of a stranger's thread anyio would not know
    which loop it is in. Not anyio's way: that waits for an answer, from a loop that may be ending, or waiting for the
    thread itself.
    """
    loop: Any = current_token().native_token
    soon: Soon | None = getattr(loop, "run_sync_soon", None)  # trio's own context
    return soon or partial(loop.call_soon_threadsafe, context=copy_context())


class Threads:
    """At most `size` synchronous handlers at once. A cancelled call stops waiting; its thread keeps its place."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places = Tokens(size)
        self._unbounded = anyio.CapacityLimiter(float("inf"))
        self._stuck: dict[Token, str] = {}

    @property
    def busy(self) -> int:
        """How many threads are at work now, abandoned ones included, those that ask a person not."""
        return self._places.out

    @property
    def stuck(self) -> dict[str, int]:
        """The threads that go on although nobody waits for them any more, counted by what they run."""
        return dict(Counter(self._stuck.values()))

    async def run(self, function: Callable[..., T], *args: object, name: str = "", holds: list[Any] | None = None) -> T:
        """Run `function(*args)` in a thread, with this task's context variables, and return its answer.

        `name` is what it is called in `stuck`; its place is among the `holds` meanwhile. Raises Overloaded when every
        place is taken by a stuck thread.
        """
        self._refuse_when_stuck()
        await self._places.take()
        job = Token(self._places)
        handover = _Handover(partial(self._free, job), partial(self._stuck.__setitem__, job, name), from_any_thread())
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

        held = holds if holds is not None else []
        held.append(job)
        try:
            answer, error = await to_thread.run_sync(work, limiter=self._unbounded, abandon_on_cancel=True)
        finally:
            held.remove(job)
            handover.waiter_leaves()
        if error is not None:
            raise error
        return cast("T", answer)

    def _free(self, job: Token) -> None:
        self._stuck.pop(job, None)
        job.close()

    def _refuse_when_stuck(self) -> None:
        if len(self._stuck) >= self._size:
            named = ", ".join(f"{name} ({count})" for name, count in sorted(self.stuck.items()))
            raise Overloaded(f"Every thread is held by calls that were given up but do not end: {named}.")


class _Handover:
    """Who gives the place back: the thread if it is at work when the waiting task leaves, else the waiting task."""

    def __init__(self, release: Callable[[], None], abandon: Callable[[], None], soon: Soon) -> None:
        self._release = release
        self._abandon = abandon
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
            if not mine:
                self._abandon()
        if mine:
            self._release()
