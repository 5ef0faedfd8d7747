"""Renders tasks in the form of the extension io.modelcontextprotocol/tasks (SEP-2663)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mcp_bridge._contracts.tasks import TASKS, TaskRecord

REQUIRED_CAPABILITIES: Mapping[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
"""The data of the error for clients without the extension."""


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client has declared the extension for this request."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and extensions.get(TASKS) is not None


def render_created(record: TaskRecord, poll: float) -> dict[str, Any]:
    """Return the result of a tools/call that continues as a task."""
    return {"resultType": "task", **_render_task(record, poll)}


def render_detailed(record: TaskRecord, poll: float) -> dict[str, Any]:
    """Return a task with the data of its status: questions, the result or the error."""
    state = record.state
    task = {"resultType": "complete", **_render_task(record, poll)}
    if state.status == "input_required":
        task["inputRequests"] = dict(state.requests)
    elif state.status == "completed":
        task["result"] = dict(state.result or {})
    elif state.status == "failed":
        task["error"] = dict(state.error or {})
    return task


def render_notification(record: TaskRecord, poll: float) -> dict[str, Any]:
    """Return the params of notifications/tasks: the task as tasks/get returns it."""
    task = render_detailed(record, poll)
    del task["resultType"]
    return task


def _render_task(record: TaskRecord, poll: float) -> dict[str, Any]:
    """Render the fields that all forms of a task have in common."""
    order, state = record
    task = {
        "taskId": order.id,
        "status": state.status,
        "createdAt": _format_time(order.created),
        "lastUpdatedAt": _format_time(max(order.created, state.updated)),
        "ttlMs": max(1, round(order.ttl * 1000)),
        "pollIntervalMs": max(1, round(poll * 1000)),
    }
    if state.message:
        task["statusMessage"] = state.message
    return task


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
