"""A bounded pool of threads for synchronous handlers.

Python cannot stop a thread. So when a call is cancelled or times out, its task stops waiting, but the abandoned thread
keeps its slot until its function returns. A slot is always released exactly once:

- The thread ends first, the usual case: the task releases the slot.
- The task stops waiting first: the thread is marked as stuck, and its end releases the slot in the event loop.
- The task stops waiting before the thread has begun: the task releases the slot, and the function never runs.

If stuck threads occupy all slots of a tool or a client, further calls fail immediately instead of waiting forever.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._runtime.cancellation import DeadlineClock
from mcp_bridge._runtime.limiter import Limiter, Quota, Slot, compute_share
from mcp_bridge._runtime.worker_threads import Job, WorkerThreads

# anyio uses sniffio if it is installed, as with trio.
sniffio: Any
try:
    import sniffio
except ImportError:
    sniffio = None

T = TypeVar("T")
CallSoon = Callable[[Callable[[], None]], object]
"""Schedules a callback in an event loop."""
_JOB: ContextVar[Job | None] = ContextVar("_JOB", default=None)
"""The job of the thread in whose context the code runs, for `is_abandoned`."""


def is_abandoned() -> bool:
    """Whether this code runs in a thread that its call has abandoned, or on behalf of such a thread.

    The answer is exact only in the event loop: elsewhere, the call may abandon the thread at any time.
    """
    job = _JOB.get()
    return job is not None and job.is_abandoned


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
        self._clock = DeadlineClock()
        self._workers: WorkerThreads | None = None
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
        job = Job(function, args, copy_context())
        job.context.run(_prepare_context, job)
        workers = self._get_workers()
        holds.append(slot)
        try:
            await workers.run(job)
        finally:
            holds.remove(slot)
            if job.has_ended or not workers.abandon(job, partial(self._release, slot)):
                self._release(slot)
            else:
                self._stuck[slot] = name
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _get_workers(self) -> WorkerThreads:
        """Return the threads of this event loop."""
        loop = _get_loop()
        if self._workers is None or self._workers.loop is not loop:
            self._workers = WorkerThreads(loop)
        return self._workers

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
            with self._clock.start_deadline(seconds):
                return await self._slots.acquire(key=quotas, quotas=quotas)
        finally:
            for deadline in deadlines:
                deadline.resume()
        raise Overloaded(f"No thread was free for '{name}' within {seconds:.4g} seconds. Retry later.")

    def _release(self, slot: Slot) -> None:
        self._stuck.pop(slot, None)
        slot.release()


def _prepare_context(job: Job) -> None:
    """Set the variables of a job's context, in which this runs."""
    _JOB.set(job)
    if sniffio is not None:
        # The function is in no event loop. Otherwise `anyio.run` would refuse to start one for it.
        sniffio.current_async_library_cvar.set(None)


def _get_loop() -> Any:
    """Return the running event loop of asyncio, or the token of trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return current_token().native_token
