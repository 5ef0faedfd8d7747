"""Tasks in the memory of this process. They end with the process. `redis.py` has tasks for several processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._contracts.tasks import MakeTask, RunnableTask, TaskOptions, TaskOrder, TaskRecord, TaskState
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.limiter import compute_share

SWEEP_INTERVAL = 30.0
"""Seconds between two searches for tasks to remove. A task stays at most so much longer than its time to live."""


class MemoryTask:
    """A task. `changed` is set with each change of its state, and then replaced. `size` is that of its result."""

    __slots__ = ("changed", "order", "size", "task")

    def __init__(self, order: TaskOrder) -> None:
        self.order = order
        self.task: RunnableTask
        self.size = 0
        self.changed = anyio.Event()

    @property
    def record(self) -> TaskRecord:
        return TaskRecord(self.order, self.task.state)

    def notify_waiting(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class MemoryTasks:
    """Keeps and runs tasks in this process (see `TaskEngine`)."""

    def __init__(self, options: TaskOptions) -> None:
        self._max_tasks = options.most
        self._max_bytes = options.size
        self._client_share = compute_share(options.most)
        # Tasks are in the order in which they expire, because all have the same ttl.
        self._tasks: dict[str, MemoryTask] = {}
        # Tasks are counted by client.
        self._counts: Counter[str | None] = Counter()
        self._bytes = 0
        self._group: TaskGroup | None = None
        self._make_task: MakeTask | None = None
        self._running = anyio.Event()

    async def run_tasks(
        self, make_task: MakeTask, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Run tasks until cancelled. This cancels the tasks."""
        self._make_task = make_task
        try:
            async with anyio.create_task_group() as self._group:
                self._running.set()
                task_status.started()
                while True:
                    await anyio.sleep(SWEEP_INTERVAL)
                    self._remove_expired()
        finally:
            self._group = None
            self._running = anyio.Event()

    async def submit_task(self, order: TaskOrder) -> None:
        # A request may arrive before `run_tasks` has started.
        await self._running.wait()
        self._remove_expired()
        has_share = order.client is None or self._counts[order.client] < self._client_share
        if not has_share or len(self._tasks) >= self._max_tasks or self._bytes >= self._max_bytes:
            raise Overloaded("The server is at capacity: too many tasks are kept. Cancel some, or retry later.")
        assert self._group is not None
        assert self._make_task is not None
        entry = MemoryTask(order)
        entry.task = self._make_task(order, entry.notify_waiting)
        self._tasks[order.id] = entry
        self._counts[order.client] += 1
        self._group.start_soon(self._run_task, entry)

    async def _run_task(self, entry: MemoryTask) -> None:
        """Run a task, and again after each failure with a delay for a retry."""
        while (delay := await entry.task.run_to_end()) is not None:
            with anyio.move_on_after(delay):
                # If the task is cancelled during the delay, it does not run again.
                while not entry.task.state.is_final:
                    await entry.changed.wait()
            state = entry.task.state
            if state.is_final:
                return
            order = replace(entry.order, run=entry.order.run + 1, failures=entry.order.failures + 1)
            entry.order = order
            assert self._make_task is not None
            entry.task = self._make_task(order, entry.notify_waiting)
            # The message was about the wait for this attempt.
            entry.task.state = replace(state, message="")
        state = entry.task.state
        if state.result is not None and entry.order.id in self._tasks:
            entry.size = len(dump_json(state.result))
            self._bytes += entry.size

    async def find_task(self, task_id: str) -> TaskRecord | None:
        self._remove_expired()
        entry = self._tasks.get(task_id)
        return entry.record if entry is not None else None

    async def wait_for_change(self, task_id: str, seen: TaskState, seconds: float) -> TaskRecord | None:
        entry = self._tasks.get(task_id)
        if entry is not None and entry.task.state is seen:
            with anyio.move_on_after(seconds):
                await entry.changed.wait()
        return await self.find_task(task_id)

    async def deliver_answers(self, task_id: str, responses: Mapping[str, Any]) -> None:
        entry = self._tasks.get(task_id)
        if entry is not None:
            entry.task.deliver(responses)

    async def cancel_task(self, task_id: str) -> None:
        entry = self._tasks.get(task_id)
        if entry is not None:
            entry.task.cancel_run()

    async def remove_task(self, task_id: str) -> None:
        entry = self._tasks.get(task_id)
        if entry is not None:
            self._remove_entry(entry)

    def _remove_entry(self, entry: MemoryTask) -> None:
        del self._tasks[entry.order.id]
        entry.task.cancel_run()
        self._bytes -= entry.size
        self._counts[entry.order.client] -= 1
        if not self._counts[entry.order.client]:
            del self._counts[entry.order.client]

    def _remove_expired(self) -> None:
        now = time.time()
        for entry in list(self._tasks.values()):
            if entry.order.expires > now:
                break
            self._remove_entry(entry)
