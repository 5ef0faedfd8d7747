"""WorkerPool: the workers of one source. There is one for each concurrent call up to a limit, and always at least one.

A worker is in one of these states:

- starting: The worker has a `WorkerStart`. The first call that needs a worker claims it.
- free: The worker is in `_free`. The last used one is used first, so the others become idle and end.
- in use: The worker is only in `_all`. Its call keeps its slot until the worker is free again or has ended, even if the
  call was cancelled.
- ended: `_watch_worker` removes the worker. If it was the last one, another is started.

If a start fails, the next one follows after a pause, which doubles each time. Until a start succeeds, calls fail at
once with ToolUnavailable instead of waiting.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcp_bridge._contracts.errors import Overloaded, SourceError, ToolCrashed, ToolUnavailable
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._isolation.affinity import WorkerAffinity
from mcp_bridge._isolation.codec import Json
from mcp_bridge._isolation.conversation import WorkerCall, WorkerCrash, run_worker_call
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import WorkerOrder
from mcp_bridge._isolation.process import FailedSource, WorkerProcess
from mcp_bridge._runtime.limiter import Limiter, Slot

logger = logging.getLogger("mcp_bridge.isolation")

CANCEL_TIMEOUT = 1.0
"""Seconds in which a cancelled call has to end. After that, its worker is killed."""
NESTED_TIMEOUT = 2.0
"""Seconds for which a nested call waits for a worker. A cancelled call ends within this time."""
IDLE_TIMEOUT = 60.0
"""Seconds between two checks for free workers. All but one of them are ended then."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
"""Seconds between two attempts to start a worker. They double after each failure, up to the maximum."""
UNAVAILABLE = "The process that this tool runs in cannot be started at the moment. Retry later."


@dataclass(eq=False, slots=True)
class WorkerStart:
    """The start of a worker.

    Attributes:
        finished: Set at the end of the start.
        is_claimed: Whether a call waits for the worker.
        worker: The worker, or None if the start has failed or is not finished.
    """

    finished: anyio.Event = field(default_factory=anyio.Event)
    is_claimed: bool = False
    worker: WorkerProcess | None = None


class WorkerPool:
    """A limited number of workers, each with one call at a time.

    A nested call, which one of these calls makes, gets one of as many more workers. It is rejected if none is free for
    `NESTED_TIMEOUT`: waiting longer could be a deadlock, because its caller might have the last one.

    `on_message` gets the offers and notifications of workers.

    Attributes:
        isolation: How tools are isolated.
        current: If it is set, only workers that have made this offer are called.
    """

    def __init__(
        self,
        order: WorkerOrder,
        isolation: IsolationOptions,
        on_message: Callable[[Json], None],
    ) -> None:
        self._order = order
        self.isolation = isolation
        self._on_message = on_message
        self.current: Json | None = None
        self._free: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._affinity = WorkerAffinity()
        self._starts: list[WorkerStart] = []
        self._slots = Limiter(isolation.workers)
        self._nested_slots = Limiter(isolation.workers)
        self._is_nested: ContextVar[bool] = ContextVar("is_nested", default=False)
        self._tasks: TaskGroup | None = None
        # Seconds before the next start after a failure.
        self._pause = 0.0
        # Whether the last start has failed.
        self._is_broken = False
        self._is_restarting = False

    async def run(self, *, task_status: TaskStatus[SourceError | None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the workers until cancelled.

        The task has started once the first start of a worker has ended. The value for `tasks.start` is the error of
        this start, or None. Raises FailedSource if the source in the first worker has failed.
        """
        try:
            async with anyio.create_task_group() as self._tasks:
                problem = None
                try:
                    self._free.append(await self._start_worker())
                except FailedSource:
                    raise
                except SourceError as error:
                    self._report_failure(error)
                    problem = error
                task_status.started(problem)
                while True:
                    await anyio.sleep(IDLE_TIMEOUT)
                    for worker in self._free[:-1]:
                        if not self._affinity.keeps_state(worker):
                            self._free.remove(worker)
                            self._start_task(worker.close)
        finally:
            self._tasks = None

    async def call(self, request: WorkerCall, ctx: RunningCall) -> ToolResult | NeedsInput:
        """Run a call in a worker.

        Raises:
            ToolCrashed: the call ended its worker.
            ToolUnavailable: no worker can be started.
            Overloaded: there are too many nested calls.
            Exception: whatever the call raised.
        """
        slot = await self._acquire_slot(request, ctx)
        try:
            worker = await self._acquire_worker(request)
        except BaseException:
            slot.release()
            raise
        token = self._is_nested.set(True)
        try:
            result = await run_worker_call(worker, request, ctx, self.isolation)
        except WorkerCrash as crash:
            worker.kill()
            self._start_task(self._release_slot_at_end, worker, slot)
            await worker.ended.wait()
            reason = crash.reason or worker.describe_exit()
            logger.warning("source %r: %s %r %s", self._order.name, request.label, request.name, reason)
            raise ToolCrashed(request.name, reason, kind=request.label) from None
        except BaseException:
            # The call was cancelled, or its result is too large. In both cases, the worker may still be busy.
            self._start_task(self._cancel_call, worker, slot)
            raise
        finally:
            self._is_nested.reset(token)
        if worker.is_alive:
            self._affinity.remember_worker(request, result, worker)
        self._release_worker(worker, slot)
        if isinstance(result, Exception):
            raise result
        return result

    async def _acquire_slot(self, request: WorkerCall, ctx: RunningCall) -> Slot:
        """Wait for a slot. Tools and clients take turns, as in the pipeline. Raises Overloaded for a nested call."""
        if self._is_nested.get():
            with anyio.move_on_after(NESTED_TIMEOUT):
                return await self._nested_slots.acquire()
            raise Overloaded("Too many calls made by other calls run in workers. Retry later.")
        keys = [f"{request.kind}/{request.name}"]
        if ctx.client is not None:
            keys.append(ctx.client)
        # The pipeline has limits for each client and tool, so there are none here.
        return await self._slots.acquire(tuple(keys), quotas=[(key, math.inf) for key in keys])

    async def _acquire_worker(self, request: WorkerCall) -> WorkerProcess:
        """Return a worker for a call: the one with its state, a free one, or a new one."""
        worker = self._affinity.find_worker(request)
        if worker is not None:
            if worker in self._free:
                self._free.remove(worker)
            else:
                await self._wait_for_worker(worker)
            if self._is_usable(worker):
                return worker
            # A live worker is only unusable if its offer is out of date.
            if worker.is_alive:
                self._start_task(worker.close)
        while self._free:
            worker = self._free.pop()
            if self._is_usable(worker):
                return worker
            self._start_task(worker.close)
        start = next((start for start in self._starts if not start.is_claimed), None)
        if start is None:
            if self._is_broken:
                raise ToolUnavailable(UNAVAILABLE)
            start = self._schedule_start()
        start.is_claimed = True
        try:
            await start.finished.wait()
        except BaseException:
            # The call is cancelled, so another call can have the worker.
            start.is_claimed = False
            if start.worker is not None:
                self._free.append(start.worker)
            raise
        if start.worker is None:
            raise ToolUnavailable(UNAVAILABLE)
        return start.worker

    def _is_usable(self, worker: WorkerProcess) -> bool:
        return worker.is_alive and self.current in (None, worker.offer)

    async def _wait_for_worker(self, worker: WorkerProcess) -> None:
        """Wait for the busy worker with the state of a call, until it is free or has ended. Raises Overloaded."""
        # The caller of this call may run in that worker, and wait for this call.
        if self._is_nested.get():
            raise Overloaded("The worker that keeps the state of this call is in use. Retry later.")
        event = self._affinity.start_waiting(worker)
        try:
            await event.wait()
        except BaseException:
            # The worker was handed over to this call just before its cancellation.
            if event.is_set():
                self._free_worker(worker)
            else:
                self._affinity.stop_waiting(worker, event)
            raise

    def _free_worker(self, worker: WorkerProcess) -> None:
        if worker.is_alive and not self._affinity.hand_over(worker):
            self._free.append(worker)

    def _schedule_start(self) -> WorkerStart:
        if self._tasks is None or self._tasks.cancel_scope.cancel_called:
            raise ToolUnavailable(UNAVAILABLE)
        start = WorkerStart()
        self._starts.append(start)
        self._tasks.start_soon(self._run_start, start)
        return start

    async def _run_start(self, start: WorkerStart) -> None:
        try:
            start.worker = await self._start_worker()
            self._is_broken = False
            if not start.is_claimed:
                self._free.append(start.worker)
        except SourceError as error:
            self._report_failure(error)
        finally:
            self._starts.remove(start)
            start.finished.set()

    def _report_failure(self, error: SourceError) -> None:
        self._is_broken = True
        self._extend_pause()
        text = "source %r: no worker can be started (next attempt in %g s): %s"
        logger.error(text, self._order.name, self._pause, error)
        self._schedule_restart()

    async def _start_worker(self) -> WorkerProcess:
        assert self._tasks is not None
        worker = WorkerProcess(self._order, self.isolation, self._on_message)
        self._all.add(worker)
        try:
            await worker.start(self._tasks)
        except BaseException:
            worker.kill()
            self._all.discard(worker)
            raise
        self._tasks.start_soon(self._watch_worker, worker)
        return worker

    async def _watch_worker(self, worker: WorkerProcess) -> None:
        """Wait for the end of a worker, and start another one if it was the last."""
        await worker.ended.wait()
        self._all.discard(worker)
        self._affinity.forget_worker(worker)
        if worker in self._free:
            self._free.remove(worker)
            logger.warning("a worker of source %r %s between two calls", self._order.name, worker.describe_exit())
            if not worker.was_called:
                self._extend_pause()
        if not self._all:
            self._schedule_restart()

    def _extend_pause(self) -> None:
        """Double the pause, so workers that end without a call are not started all the time."""
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), MAX_PAUSE)

    def _schedule_restart(self) -> None:
        if not self._is_restarting:
            self._is_restarting = True
            self._start_task(self._restart_after_pause)

    async def _restart_after_pause(self) -> None:
        try:
            await anyio.sleep(self._pause)
            if self._is_broken or not self._all:
                self._schedule_start()
        finally:
            self._is_restarting = False

    async def _release_slot_at_end(self, worker: WorkerProcess, slot: Slot) -> None:
        await worker.ended.wait()
        slot.release()

    async def _cancel_call(self, worker: WorkerProcess, slot: Slot) -> None:
        """Cancel a call. It keeps its slot until it has ended, or until its worker was killed."""
        if worker.is_alive and not await worker.cancel_call(CANCEL_TIMEOUT):
            logger.warning("source %r: a cancelled call does not end; its worker is killed", self._order.name)
            worker.kill()
        self._release_worker(worker, slot)

    def _release_worker(self, worker: WorkerProcess, slot: Slot) -> None:
        if worker.is_alive:
            self._pause = 0.0
            self._free_worker(worker)
            slot.release()
        else:
            self._start_task(self._release_slot_at_end, worker, slot)

    def _start_task(self, function: Callable[..., object], *args: object) -> None:
        tasks = self._tasks
        if tasks is not None and not tasks.cancel_scope.cancel_called:
            tasks.start_soon(function, *args)  # type: ignore[arg-type]
