"""Defines tasks, calls whose results a client fetches later (extension io.modelcontextprotocol/tasks, SEP-2663).

`ToolTasks` and `TaskOptions` are settings. The server makes a `TaskOrder` from a call and submits it to a `TaskEngine`,
in memory or in Redis. The engine keeps its `TaskState` and runs it as a `RunnableTask`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

TASKS = "io.modelcontextprotocol/tasks"
"""The identifier of the extension."""

MEMORY = "memory://"
"""The URL of tasks in the memory of the server."""

MAX_BACKOFF = 300.0
"""The longest wait between two attempts, in seconds."""

TaskMode = Literal["forbidden", "optional", "required"]
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class ToolTasks(NamedTuple):
    """How the calls to one tool become tasks. None means the default of all tools.

    >>> ToolTasks("required", timeout=600).with_defaults(ToolTasks(retries=2, timeout=60))
    ToolTasks(mode='required', after=None, timeout=600, retries=2, backoff=None)

    Attributes:
        mode: With `optional`, the default, calls become tasks if the client supports tasks. With `required`, only
            clients that support tasks can call the tool. With `forbidden`, no call becomes a task.
        after: The seconds after which a call continues as a task. With 0, each call is a task immediately.
        timeout: The maximum number of seconds of each attempt, without the time in which it waits for the user.
        retries: The maximum number of retries of a failed task. Default: 0.
        backoff: The seconds before the first retry. The time doubles before each further one, up to 5 minutes.
    """

    mode: TaskMode | None = None
    after: float | None = None
    timeout: float | None = None
    retries: int | None = None
    backoff: float | None = None

    def with_defaults(self, others: ToolTasks) -> ToolTasks:
        """Return these options, with those of `others` in place of None."""
        changes = {name: value for name, value in self._asdict().items() if value is not None}
        return others._replace(**changes)


def read_tool_tasks(declaration: ToolTasks | TaskMode) -> ToolTasks:
    """Return the declared options of a tool. Raises ValueError for an unknown mode, and for numbers below 0."""
    tasks = ToolTasks(mode=declaration) if isinstance(declaration, str) else declaration
    modes = get_args(TaskMode)
    if tasks.mode is not None and tasks.mode not in modes:
        raise ValueError(f"tasks: expected {', '.join(modes)} or ToolTasks, got {tasks.mode!r}")
    for name, value in tasks._asdict().items():
        if name != "mode" and value is not None and not 0 <= value < math.inf:
            raise ValueError(f"tasks: {name}: expected a number of at least 0, got {value!r}")
    return tasks


class TaskOptions(NamedTuple):
    """Which calls become tasks, and the limits of tasks.

    >>> options = TaskOptions(after=30, tools={"report_*": ToolTasks("required")})

    Attributes:
        after: See `ToolTasks`. Tools that require tasks have 0 by default.
        timeout: See `ToolTasks`.
        backoff: See `ToolTasks`.
        ttl: The seconds for which a task and its result are kept, from its creation.
        poll: The recommended seconds between two requests of a client for the state of a task.
        most: The maximum number of tasks. If there are several clients, each can have at most three quarters of them.
        size: The maximum number of bytes of all results.
        tools: Options of single tools, by patterns of their names. The first matching pattern applies. These options
            take precedence over the declarations of tools.
        url: Where tasks are kept: `memory://`, or a Redis at `redis://`, `rediss://` or `unix://`.
        concurrency: The maximum number of running tasks in this process. With Redis it may be 0, so that only other
            processes run tasks.
        lease: With Redis, the seconds after which another process starts the tasks of a process that has ended.
        attempts: With Redis, the maximum number of starts of a task whose processes end.
        drain: With Redis, the seconds for running tasks to finish when this process shuts down. Then another process
            starts them again.
    """

    after: float = 10.0
    timeout: float = 3600.0
    backoff: float = 1.0
    ttl: float = 86400.0
    poll: float = 1.0
    most: int = 1024
    size: int = 256 * 1024 * 1024
    tools: Mapping[str, ToolTasks] = {}
    url: str = MEMORY
    concurrency: int = 10
    lease: float = 30.0
    attempts: int = 3
    drain: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """A call that runs as a task: the parameters of tools/call, and its caller.

    Attributes:
        id: The handle of the task. It cannot be guessed, because it grants access to the task.
        params: The parameters of tools/call.
        version: The MCP version of the client.
        request_id: The id of the first request.
        principal: The authenticated caller, or None.
        client: The key of the client for quotas; None if the server has only one client.
        created: The time of the creation, in seconds since 1970.
        ttl: The seconds from `created` until the task is deleted.
        timeout: The maximum number of seconds of each attempt.
        retries: The maximum number of retries after a failure.
        backoff: The seconds before the first retry.
        run: The number of this run, from 1. A task runs again after a failure, and if its process ends.
        failures: The number of failed attempts.
    """

    id: str
    params: Mapping[str, Any]
    version: str
    request_id: str | int
    principal: str | None
    client: str | None
    created: float
    ttl: float
    timeout: float
    retries: int = 0
    backoff: float = 1.0
    run: int = 1
    failures: int = 0

    @property
    def expires(self) -> float:
        """When the task is deleted, in seconds since 1970."""
        return self.created + self.ttl

    def compute_delay(self) -> float | None:
        """Return the seconds until the next attempt after a failure, or None if there is no further attempt."""
        # The exponent is limited, because a larger one could overflow the float.
        delay = min(self.backoff * 2.0 ** min(self.failures, 64), MAX_BACKOFF)
        if self.failures >= self.retries or time.time() + delay >= self.expires:
            return None
        return delay


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """The state of a task at one time.

    Attributes:
        message: The current step of the task, or the reason for its failure.
        progress: The last progress, its total if known, and its message.
        requests: Requests for input from the client, by key.
        result: The result of a completed task, in the form of tools/call.
        error: The JSON-RPC error of a failed task.
        updated: The time of the last change, in seconds since 1970.
    """

    status: TaskStatus = "working"
    message: str = ""
    progress: tuple[float, float | None, str | None] | None = None
    requests: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    updated: float = 0.0

    @property
    def is_final(self) -> bool:
        """Whether the task has ended."""
        return self.status in ("completed", "failed", "cancelled")


class TaskRecord(NamedTuple):
    """A task as an engine keeps it."""

    order: TaskOrder
    state: TaskState


class RunnableTask(Protocol):
    """A call that an engine runs. It calls its listener after each change of `state`."""

    state: TaskState

    async def run_to_end(self) -> float | None:
        """Run the call to a final state, or to a failure after which the engine has to run it again.

        Return the seconds until the next run, or None if the state is final. Raises only if the task of the event loop
        is cancelled.
        """

    def deliver(self, responses: Mapping[str, Any]) -> None:
        """Accept answers of the client, by key. Unknown keys are ignored."""

    def cancel_run(self) -> None:
        """Cancel the call, unless its state is final."""


MakeTask = Callable[[TaskOrder, Callable[[], None]], RunnableTask]
"""Makes a task for an order. The second argument is the listener for changes."""


class TaskEngine(Protocol):
    """Keeps tasks and runs them."""

    async def run_tasks(self, make_task: MakeTask, *, task_status: Any = None) -> None:
        """Run tasks until cancelled. `task_status`, that of `anyio.TaskGroup.start`, receives the start."""

    async def submit_task(self, order: TaskOrder) -> None:
        """Start a task. When this returns, `find_task` finds it. Raises Overloaded."""

    async def find_task(self, task_id: str) -> TaskRecord | None:
        """Return a task; None if it is unknown or has expired."""

    async def wait_for_change(self, task_id: str, seen: TaskState, seconds: float) -> TaskRecord | None:
        """Return a task as soon as its state is no longer `seen`, or after `seconds`."""

    async def deliver_answers(self, task_id: str, responses: Mapping[str, Any]) -> None:
        """Pass the client's answers to a task."""

    async def cancel_task(self, task_id: str) -> None:
        """Cancel a task, unless it has ended."""

    async def remove_task(self, task_id: str) -> None:
        """Cancel a task and remove it, because its client has the result, or wants none."""
