"""Workers of the library docket. They take tasks from the queue in Redis, and run them in this process.

A worker has a lease of each task that it runs. If the process ends, the lease expires, and another worker runs the
task.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import anyio
from anyio.abc import TaskGroup
from docket import Docket, Worker
from redis.exceptions import RedisError

from mcp_bridge._contracts.tasks import RunnableTask, TaskOptions

RETRY = 0.5
"""Seconds between two attempts to reach Redis."""


class LocalRun:
    """A task that this process runs. `scope` is shielded, so that a run has time to end after `run_tasks` is cancelled.

    Attributes:
        worker: The worker that has taken the task from the queue.
        message: The id of the task's message in the queue.
        missed: Whether another process has changed the task before `task` existed here.
        is_over: Whether the state of `task` is its last one in this run.
        delay: The seconds after which the task has to run again.
    """

    __slots__ = ("changed", "delay", "ended", "is_over", "message", "missed", "scope", "task", "worker")

    def __init__(self, worker: Worker, message: bytes | None) -> None:
        self.worker = worker
        self.message = message
        self.task: RunnableTask | None = None
        self.missed = False
        self.is_over = False
        self.delay: float | None = None
        self.scope = anyio.CancelScope(shield=True)
        self.changed = anyio.Event()
        self.ended = anyio.Event()

    def notify_changed(self) -> None:
        self.changed.set()


class TaskWorkers:
    """Runs up to `options.concurrency` tasks of the queue at the same time. `runs` has the runs by task id."""

    def __init__(self, docket: Docket, options: TaskOptions, runs: Mapping[str, LocalRun]) -> None:
        self._docket = docket
        self._options = options
        self._runs = runs
        self._workers: list[Worker] = []
        self._group: TaskGroup | None = None

    async def run(self) -> None:
        """Run tasks until cancelled. Running tasks then have `drain` seconds to end."""
        async with anyio.create_task_group() as self._group:
            if self._options.concurrency:
                self._start_worker(self._group, self._options.concurrency)
            await anyio.sleep_forever()

    def reuse_slots(self) -> None:
        """Make the free slots available after an outage.

        A worker whose connection has failed takes no tasks until those that it runs have ended. So it keeps only the
        slots of these tasks, and a worker that runs none, or a new one, gets the free slots.
        """
        counts = Counter(run.worker for run in self._runs.values())
        free = sum(worker.concurrency - count for worker, count in counts.items())
        for worker, count in counts.items():
            worker.concurrency = count
        idle = next((worker for worker in self._workers if not counts[worker]), None)
        if idle is not None:
            idle.concurrency += free
        elif free > 0 and self._group is not None:
            self._start_worker(self._group, free)

    def _start_worker(self, group: TaskGroup, concurrency: int) -> None:
        worker = Worker(
            self._docket,
            name=f"{socket.gethostname()}#{os.getpid()}#{secrets.token_hex(8)}",
            concurrency=concurrency,
            redelivery_timeout=timedelta(seconds=self._options.lease),
            reconnection_delay=timedelta(seconds=RETRY),
            minimum_check_interval=timedelta(milliseconds=100),
        )
        self._workers.append(worker)
        group.start_soon(self._run_worker, worker)

    async def _run_worker(self, worker: Worker) -> None:
        async with close_in_any_case(worker):
            running = asyncio.create_task(worker.run_forever())
            renewing = asyncio.create_task(self._renew_leases(worker))
            try:
                await asyncio.shield(running)
            finally:
                with anyio.CancelScope(shield=True):
                    # The worker takes no new tasks.
                    running.cancel()
                    await asyncio.wait({running}, timeout=self._options.drain)
                    # The tasks of a worker are cancelled only while it waits for them, so the cancellation is repeated.
                    while not running.done():
                        running.cancel()
                        await asyncio.wait({running}, timeout=RETRY)
                    renewing.cancel()

    async def _renew_leases(self, worker: Worker) -> None:
        """Keep other processes from starting the tasks that run here.

        docket renews its leases too, but not while a worker ends or connects again, which may take long.
        """
        stream, group = self._docket.stream_key, self._docket.worker_group_name
        while True:
            await anyio.sleep(self._options.lease / 4)
            messages = {run.message for run in self._runs.values() if run.worker is worker}
            if not messages:
                continue
            # The loop that runs tasks reports the error.
            with suppress(RedisError):
                async with self._docket.redis() as redis:
                    # Messages of tasks that have just ended may still be pending, so more are read than tasks run.
                    pending = await redis.xpending_range(stream, group, "-", "+", 2 * len(messages), worker.name)
                    ids = [message["message_id"] for message in pending if message["message_id"] in messages]
                    if ids:
                        await redis.xclaim(stream, group, worker.name, 0, ids, idle=0, justid=True)


@asynccontextmanager
async def close_in_any_case(manager: AbstractAsyncContextManager[Any]) -> AsyncIterator[None]:
    """Enter a context manager, and leave it even while this task is being cancelled or Redis cannot be reached."""
    await manager.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), suppress(RedisError):
            await manager.__aexit__(None, None, None)
