"""A bounded pool of threads for synchronous handlers.

Python cannot stop a thread. So when a call is cancelled or times out, its task stops waiting, but the abandoned thread
keeps its slot until its function returns. A slot is always released exactly once:

- The thread ends first, the usual case: the task releases the slot.
- The task stops waiting first: the thread is marked as stuck, and its end releases the slot in the event loop.
- The task stops waiting before the thread has begun: the task releases the slot, and the thread does nothing.

If stuck threads occupy all slots of a tool or a client, further calls fail immediately instead of waiting forever.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._runtime.cancellation import cancel_scope_first
from mcp_bridge._runtime.limiter import Limiter, Quota, Slot, compute_share

T = TypeVar("T")
CallSoon = Callable[[Callable[[], None]], object]
"""Schedules a callback in an event loop."""
_HANDOVER: ContextVar[_SlotHandover | None] = ContextVar("_HANDOVER", default=None)
"""The handover of the thread in whose context the code runs, for `is_abandoned`."""


def is_abandoned() -> bool:
    """Whether this code runs in a thread that its call has abandoned, or on behalf of such a thread.

    The answer is exact only in the event loop: elsewhere, the call may abandon the thread at any time.
    """
    handover = _HANDOVER.get()
    return handover is not None and handover.is_abandoned


def make_call_soon() -> CallSoon:
    """Return a function that schedules a callback in this event loop from any thread or signal handler.

    It returns immediately and raises RuntimeError when the loop has ended. Unlike `anyio.from_thread.run_sync` it does
    not wait for the callback, because the loop may be ending, or waiting for this very thread. The callback runs in a
    copy of this task's context: in the context of an unknown thread, anyio could not find the event loop.
    """
    loop: Any = current_token().native_token
    # trio runs callbacks in its system context, so they need no copy.
    soon: CallSoon | None = getattr(loop, "run_sync_soon", None)
    return soon or partial(loop.call_soon_threadsafe, context=copy_context())


class ThreadPool:
    """Runs at most `size` synchronous functions. A cancelled call stops waiting, but its thread keeps its slot.

    Functions of the same name, or of the same client, have at most their share of the threads (`compute_share`).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._share = compute_share(size)
        self._slots = Limiter(size)
        self._unbounded = anyio.CapacityLimiter(float("inf"))
        self._stuck: dict[Slot, str] = {}

    @property
    def busy_count(self) -> int:
        """The number of working threads. It includes abandoned threads, and excludes those that wait for a user."""
        return self._slots.in_use

    @property
    def stuck(self) -> dict[str, int]:
        """The number of abandoned threads that still run, by the name of their function."""
        return dict(Counter(self._stuck.values()))

    async def run(
        self,
        function: Callable[..., T],
        *args: object,
        name: str = "",
        client: str | None = None,
        holds: list[Any] | None = None,
    ) -> T:
        """Run `function(*args)` in a thread, with this task's context variables, and return its result.

        Args:
            name: The name of the function in `stuck` and in errors.
            client: The client for the share of the threads (see `RunningCall.client`).
            holds: The holds of the call (see `RunningCall.holds`). The slot is one of them while the function runs.
                While the function waits for a thread, the deadlines among them are paused. The wait ends with
                Overloaded at the time of the nearest deadline.

        Raises:
            Overloaded: Abandoned threads occupy all slots of this name or client, or none became free in time.
        """
        if holds is None:
            holds = []
        quotas: tuple[Quota, ...] = ((f"entry/{name}", self._share),) if name else ()
        if client is not None:
            quotas = (*quotas, (client, self._share))
        if self._stuck:
            self._check_stuck(quotas)
        # Callers with the same name and client have the same quotas and take turns together, so the quotas are the key.
        slot = self._slots.acquire_nowait(key=quotas, quotas=quotas)
        if slot is None:
            slot = await self._wait_for_slot(name, quotas, holds)
        handover = _SlotHandover(partial(self._release, slot), partial(self._mark_stuck, slot, name))
        context = copy_context()
        context.run(_HANDOVER.set, handover)

        def work() -> tuple[T | None, BaseException | None]:
            if not handover.start_thread_work():
                return None, None
            # Errors are returned: a future cannot carry a StopIteration, and a SystemExit would end the loop.
            try:
                return context.run(function, *args), None
            except BaseException as error:
                return None, error
            finally:
                handover.end_thread_work()

        holds.append(slot)
        scope = anyio.CancelScope()
        try:
            # The thread may wait for other tasks (`anyio.from_thread`). On asyncio, cancelling this task alone does not
            # cancel them. anyio cancels them with the scope, so `cancel_scope_first` cancels the scope, too.
            with scope:
                waiting = to_thread.run_sync(work, limiter=self._unbounded, abandon_on_cancel=True)
                result, error = await cancel_scope_first(scope, waiting)
        finally:
            holds.remove(slot)
            handover.stop_waiting()
        if error is not None:
            raise error
        return cast("T", result)

    def _check_stuck(self, quotas: Sequence[Quota]) -> None:
        """Raise Overloaded if abandoned threads occupy all slots that a call with these quotas may have."""
        counts: Counter[Hashable] = Counter()
        for slot in self._stuck:
            counts.update(key for key, _ in slot.quotas)
        if len(self._stuck) >= self._size:
            reason = "All threads are occupied"
        elif any(counts[key] >= quota for key, quota in quotas):
            reason = "All threads that one tool or client may have are occupied"
        else:
            return
        names = ", ".join(f"{stuck} ({count})" for stuck, count in sorted(self.stuck.items()))
        raise Overloaded(f"{reason} by calls that timed out but still run: {names}. Retry later.")

    async def _wait_for_slot(self, name: str, quotas: Sequence[Quota], holds: list[Any]) -> Slot:
        """Wait for a slot until the nearest deadline would pass. Raises Overloaded."""
        # A call that waits too long has to fail as overloaded and not with a timeout of the tool, so its deadlines
        # pause. The other holds are slots, whose deadline is infinite.
        deadlines = [hold for hold in holds if hold.deadline < math.inf]
        seconds = min((hold.deadline for hold in deadlines), default=math.inf) - anyio.current_time()
        for deadline in deadlines:
            deadline.pause()
        try:
            with anyio.move_on_after(seconds):
                return await self._slots.acquire(key=quotas, quotas=quotas)
        finally:
            for deadline in deadlines:
                deadline.resume()
        raise Overloaded(f"No thread was free for '{name}' within {seconds:.4g} seconds. Retry later.")

    def _mark_stuck(self, slot: Slot, name: str) -> None:
        self._stuck[slot] = name

    def _release(self, slot: Slot) -> None:
        self._stuck.pop(slot, None)
        slot.release()


class _SlotHandover:
    """Decides who releases the slot: the thread if it still works when the task stops waiting, else the task.

    `release` releases the slot, and `abandon` marks it as stuck. Both are called in the event loop.
    """

    def __init__(self, release: Callable[[], None], abandon: Callable[[], None]) -> None:
        self._release = release
        self._abandon = abandon
        # The task sets this when it leaves the release to the thread.
        self._call_soon: CallSoon | None = None
        self._lock = threading.Lock()
        self._is_working = self.is_abandoned = False

    def start_thread_work(self) -> bool:
        """Return whether the thread may begin. It may not if its call was cancelled before."""
        with self._lock:
            self._is_working = not self.is_abandoned
            return self._is_working

    def end_thread_work(self) -> None:
        """Release the slot from the thread, if the task has stopped waiting."""
        with self._lock:
            self._is_working = False
            call_soon = self._call_soon
        if call_soon is not None:
            # If the loop has ended, the pool has ended with it.
            with suppress(RuntimeError):
                call_soon(self._release)

    def stop_waiting(self) -> None:
        """Release the slot from the task, unless the thread still works."""
        with self._lock:
            self.is_abandoned = True
            is_working = self._is_working
            if is_working:
                self._call_soon = make_call_soon()
                self._abandon()
        if not is_working:
            self._release()
