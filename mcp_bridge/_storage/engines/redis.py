"""Tasks in Redis: any process of the same server can create, run and return them.

A task is a record (`redis_records.py`: its order, its state, the answers of its client) and an item in docket's queue.

1. `submit_task` stores the record, then queues the id. If either fails, the client gets an error, and the task is
   abandoned: it is removed as soon as Redis is available, because a request that failed here may still arrive there.
2. docket gives the id to a worker of any process, which calls `_run_task`. `TaskRecords.begin_run` counts the run, and
   from then on only this run can change the state.
3. `_run_here` runs the call, and `_store_changes` stores each of its states. docket gets the result of `_run_task` only
   when the last state is stored, so it removes the item from the queue no earlier.
4. If the process ends, its lease expires (`redis_workers.py`), docket gives the id to another worker, and the task runs
   again from the beginning. Each task runs at least once; it fails after `options.attempts` starts.

Answers and cancellations arrive at any process, which stores them and publishes the id. `_follow_changes` of each
process receives all changes and handles those of its runs. While Redis is unavailable, requests fail, and runs
continue and store their states later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup, TaskStatus
from docket import CurrentExecution, CurrentWorker, Docket, Execution, Retry, Worker
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from mcp_bridge._contracts.errors import ConfigError, Overloaded
from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, RpcError
from mcp_bridge._contracts.tasks import MakeTask, RunnableTask, TaskOptions, TaskOrder, TaskRecord, TaskState
from mcp_bridge._storage.engines.redis_records import TaskRecords
from mcp_bridge._storage.engines.redis_workers import RETRY, LocalRun, TaskWorkers, close_in_any_case
from mcp_bridge._storage.stores.redis import describe_address

T = TypeVar("T")
RECHECK_INTERVAL = 1.0
"""Seconds after which a waiting request reads the state again, even if it was notified of no change."""
MAX_ADDING = 16
"""The maximum number of tasks that are added to the queue at the same time. The connection pool of docket does not wait
for a free connection, but raises an error."""
ENQUEUE_TIMEOUT = 2.0
"""Seconds for which queueing a task is attempted again after an error."""
SUBMIT_TIMEOUT = 6.0
"""Seconds within which a task has to be stored and queued. Otherwise, its client gets an error, and it never runs."""

logger = logging.getLogger("mcp_bridge.tasks")


class RedisTasks:
    """Keeps tasks in Redis and runs up to `options.concurrency` of them here (see `TaskEngine`). Needs asyncio.

    Args:
        name: The name of the server. Servers of other names have other tasks.
        redact: Removes secrets from a value before it is stored.
    """

    def __init__(self, options: TaskOptions, name: str, *, redact: Callable[[Any], Any]) -> None:
        self._options = options
        self._address = describe_address(options.url)
        self._records = TaskRecords(options, f"mcp-bridge:{name}:tasks", redact)
        self._docket = Docket(f"mcp-bridge:{name}:queue", options.url, execution_ttl=timedelta(0))
        self._runs: dict[str, LocalRun] = {}
        self._workers = TaskWorkers(self._docket, options, self._runs)
        self._changes: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()
        self._group: TaskGroup | None = None
        self._make_task: MakeTask | None = None
        self._running = anyio.Event()
        self._is_reported = False
        self._adding = anyio.Semaphore(MAX_ADDING)
        self._abandoned: deque[TaskOrder] = deque()

    async def run_tasks(
        self, make_task: MakeTask, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Run tasks until cancelled. While Redis is unavailable, try to reach it. Raises ConfigError on trio."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            hint = "Keep them in memory on trio"
            raise ConfigError("tasks in Redis need asyncio", where="tasks", hint=hint) from None
        # During an outage, docket logs an error with each attempt. This module logs the outage once.
        logging.getLogger("docket").setLevel(logging.CRITICAL)
        self._make_task = make_task
        self._docket.register(self._run_task, names=["run_task"])
        task_status.started()
        async with close_in_any_case(self._records), anyio.create_task_group() as self._group:
            self._group.start_soon(self._follow_changes)
            async with close_in_any_case(self._docket):
                self._running.set()
                await self._workers.run()

    async def submit_task(self, order: TaskOrder) -> None:
        await self._running.wait()
        async with self._reaching_redis():
            try:
                with anyio.fail_after(SUBMIT_TIMEOUT):
                    is_created = await self._records.create_record(order, SUBMIT_TIMEOUT)
                    if is_created:
                        await self._enqueue(order.id)
            except BaseException as error:
                self._abandon(order)
                if isinstance(error, TimeoutError):
                    raise RedisTimeoutError(f"it did not respond within {SUBMIT_TIMEOUT:g} seconds") from error
                raise
        if not is_created:
            raise Overloaded("The server is at capacity: too many tasks are kept. Cancel some, or retry later.")

    def _abandon(self, order: TaskOrder) -> None:
        """Remove a task once Redis is available. Requests that it has not read yet may create and queue the task."""
        self._abandoned.append(replace(order, params={}))
        if len(self._abandoned) == 1 and self._group is not None and not self._group.cancel_scope.cancel_called:
            self._group.start_soon(self._remove_abandoned)

    async def _remove_abandoned(self) -> None:
        while self._abandoned:
            await self._retry(partial(self._records.abandon_record, self._abandoned[0]))
            self._abandoned.popleft()

    async def _enqueue(self, task_id: str) -> None:
        """Add a task to the queue.

        After an outage, the first use of each earlier connection fails, so this tries again. It cannot add the task
        twice, because the queue has each id only once.
        """
        end = anyio.current_time() + ENQUEUE_TIMEOUT
        while True:
            try:
                async with self._adding:
                    await self._docket.add("run_task", key=task_id)(task_id)
                return
            except RedisError:
                if anyio.current_time() > end:
                    raise
                await anyio.sleep(0.02)

    async def find_task(self, task_id: str) -> TaskRecord | None:
        async with self._reaching_redis():
            return await self._records.find_record(task_id)

    async def wait_for_change(self, task_id: str, seen: TaskState, seconds: float) -> TaskRecord | None:
        end = anyio.current_time() + seconds
        while True:
            change = self._changes.setdefault(task_id, anyio.Event())
            record = await self.find_task(task_id)
            remaining_time = end - anyio.current_time()
            if record is None or record.state != seen or remaining_time <= 0:
                return record
            with anyio.move_on_after(min(remaining_time, RECHECK_INTERVAL)):
                await change.wait()

    async def deliver_answers(self, task_id: str, responses: Mapping[str, Any]) -> None:
        async with self._reaching_redis():
            await self._records.add_answers(task_id, responses)

    async def cancel_task(self, task_id: str) -> None:
        async with self._reaching_redis():
            record = await self._records.find_record(task_id)
            if record is not None:
                final_state = replace(record.state, status="cancelled", requests={}, updated=time.time())
                await self._records.change_state(record.order, final_state, by_run=False)

    async def remove_task(self, task_id: str) -> None:
        async with self._reaching_redis():
            record = await self._records.find_record(task_id)
            if record is not None:
                await self._records.remove_record(record.order)

    @asynccontextmanager
    async def _reaching_redis(self) -> AsyncIterator[None]:
        """Log an outage of Redis during the block, and report it to the client."""
        try:
            yield
        except RedisError as error:
            self._report_outage(error)
            raise RpcError(INTERNAL_ERROR, "The server cannot reach its tasks now. Retry later.") from error

    # The methods below run tasks.

    async def _run_task(
        self,
        task_id: str,
        retry: Retry = Retry(attempts=None),  # noqa: B008 - docket replaces what the defaults name
        execution: Execution = CurrentExecution(),  # noqa: B008
        worker: Worker = CurrentWorker(),  # noqa: B008
    ) -> None:
        """Run a task in this process. A worker of docket calls this. The end of the task is stored before this returns.

        If the task has failed and is retried, docket calls this again after the delay.
        """
        # The run is registered before it begins, so that no change is missed.
        run = LocalRun(worker, execution.message_id)
        self._runs[task_id] = run
        try:
            await self._begin_run(task_id, run)
        finally:
            if self._runs.get(task_id) is run:
                del self._runs[task_id]
        if run.delay is not None:
            retry.after(timedelta(seconds=run.delay))

    async def _begin_run(self, task_id: str, run: LocalRun) -> None:
        """Run a task to its end, unless it has ended already, or its runs have ended with their processes too often."""
        start = await self._retry(partial(self._records.begin_run, task_id, run.message))
        if start is None or self._group is None:
            return
        attempts, (order, _) = start
        if attempts > self._options.attempts:
            message = (
                f"The task was started {attempts - 1} times, and each process that ran it has ended before it did."
            )
            error = RpcError(INTERNAL_ERROR, message).to_json()
            await self._store_state(
                order, TaskState(status="failed", message=message, error=error, updated=time.time())
            )
            return
        if attempts > 1:
            logger.warning("a task of '%s' runs again: the process that ran it has ended", order.params["name"])
        # The call runs in a task of this group, because the scopes of the call do not know docket's cancellation.
        self._group.start_soon(self._run_here, run, order)
        try:
            await run.ended.wait()
        except asyncio.CancelledError:
            # This process shuts down, and another one runs the task again.
            run.scope.cancel()
            with anyio.CancelScope(shield=True), suppress(RedisError):
                await run.ended.wait()
                with anyio.move_on_after(RETRY):
                    await self._records.release_run(task_id, has_failed=False)
            raise
        if run.delay is not None:
            await self._retry(partial(self._records.release_run, task_id, has_failed=True))

    async def _run_here(self, run: LocalRun, order: TaskOrder) -> None:
        assert self._make_task is not None
        run.scope.deadline = anyio.current_time() + order.expires - time.time()
        try:
            with run.scope:
                task = run.task = self._make_task(order, run.notify_changed)
                async with anyio.create_task_group() as group:
                    group.start_soon(self._store_changes, run, order, task)
                    if run.missed:
                        group.start_soon(self._retry, partial(self._update_run, order.id, run))
                    run.delay = await task.run_to_end()
                    run.is_over = True
                    run.notify_changed()
        finally:
            run.ended.set()

    async def _store_changes(self, run: LocalRun, order: TaskOrder, task: RunnableTask) -> None:
        """Store each state of a run until its end. Cancel the run when it may not change the task any more.

        That is so when another run of the task has begun, or the client has cancelled it.
        """
        while True:
            await run.changed.wait()
            run.changed = anyio.Event()
            is_last = run.is_over
            state = task.state
            if not await self._store_state(order, state):
                task.cancel_run()
                return
            if is_last or state.is_final:
                return

    async def _store_state(self, order: TaskOrder, state: TaskState) -> bool:
        return await self._retry(partial(self._records.change_state, order, state, by_run=True))

    async def _retry(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation, and again until Redis is available."""
        while True:
            try:
                return await operation()
            except RedisError as error:
                self._report_outage(error)
                await anyio.sleep(RETRY)

    def _report_outage(self, error: RedisError | None) -> None:
        """Log that Redis is unavailable, or with None that it is available, once for each outage."""
        if error is not None and not self._is_reported:
            logger.error("Redis at %s is unavailable, and tasks have to wait: %s", self._address, error)
        elif error is None and self._is_reported:
            logger.warning("Redis at %s is available again", self._address)
        self._is_reported = error is not None

    # The methods below handle changes that other processes make.

    async def _follow_changes(self) -> None:
        """Wake the requests that wait for a change, and pass answers and cancellations to the runs here."""
        was_interrupted = False
        while True:
            try:
                async with aclosing(self._records.follow_changes()) as changes:
                    async for task_id in changes:
                        self._report_outage(None)
                        if was_interrupted:
                            was_interrupted = False
                            self._workers.reuse_slots()
                        await self._pass_change(task_id)
            except RedisError as error:
                was_interrupted = True
                self._report_outage(error)
                await anyio.sleep(RETRY)

    async def _pass_change(self, task_id: str | None) -> None:
        """Wake the requests and update the run of a task that has changed; with None, those of all tasks."""
        task_ids = {*self._changes, *self._runs} if task_id is None else {task_id}
        for changed_id in task_ids:
            change = self._changes.pop(changed_id, None)
            if change is not None:
                change.set()
            run = self._runs.get(changed_id)
            if run is not None:
                await self._update_run(changed_id, run)

    async def _update_run(self, task_id: str, run: LocalRun) -> None:
        """Pass a cancellation, or the client's answers, to a run in this process."""
        task = run.task
        if task is None:
            run.missed = True
            return
        record = await self._records.find_record(task_id)
        if record is None or record.state.is_final:
            # This has no effect on a task that has ended.
            task.cancel_run()
        elif task.state.requests:
            for responses in await self._records.take_answers(task_id):
                task.deliver(responses)
