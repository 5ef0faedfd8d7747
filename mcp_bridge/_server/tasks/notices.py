"""notifications/tasks on subscriptions/listen streams (SEP-2663, "Task Status Notifications")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio

from mcp_bridge._contracts.tasks import TaskEngine, TaskRecord
from mcp_bridge._protocol.wire.tasks import render_notification
from mcp_bridge._server.change_notices import ListenEvent

_WAIT = 60.0
"""Seconds after which a task that has not changed is looked at again: it may have expired."""


class TaskEvent(NamedTuple):
    """The notification that a task has changed."""

    params: Mapping[str, Any]
    method: str = "notifications/tasks"


class TaskFeed:
    """Sends a stream the state of its tasks: at first, and after each change."""

    def __init__(self, engine: TaskEngine, records: Sequence[TaskRecord], poll: float) -> None:
        self._engine = engine
        self._records = records
        self._poll = poll

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """What the acknowledgement of the stream says about tasks."""
        return {"taskIds": [record.order.id for record in self._records]}

    async def run(self, add_event: Callable[[ListenEvent], None]) -> None:
        """Add events until all tasks have ended or expired."""
        async with anyio.create_task_group() as tasks:
            for record in self._records:
                tasks.start_soon(self._follow_task, record, add_event)

    async def _follow_task(self, record: TaskRecord, add_event: Callable[[ListenEvent], None]) -> None:
        add_event(TaskEvent(render_notification(record, self._poll)))
        while not record.state.is_final:
            found = await self._engine.wait_for_change(record.order.id, record.state, _WAIT)
            if found is None:
                return
            if found.state != record.state:
                add_event(TaskEvent(render_notification(found, self._poll)))
            record = found
