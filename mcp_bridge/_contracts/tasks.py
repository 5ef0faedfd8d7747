"""Tasks: calls whose results clients fetch later (extension io.modelcontextprotocol/tasks, SEP-2663)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

TASKS = "io.modelcontextprotocol/tasks"
"""The identifier of the extension."""

MEMORY = "memory://"
"""The URL of tasks that are kept in the memory of the server."""

MAX_BACKOFF = 300.0
"""The longest wait between two attempts, in seconds."""

TaskMode = Literal["forbidden", "optional", "required"]
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class ToolTasks(NamedTuple):
    """How the calls to one tool become tasks. None means the default, which is that of all tools.

    Attributes:
        mode: `optional`, the default: if the client supports tasks. `required`: only such clients can call the tool.
            `forbidden`: never.
        after: How many seconds a call may take before it continues as a task; 0 makes each call a task at once.
        timeout: How many seconds each attempt may run, without the time in which it waits for the user.
        retries: How often a failed task is retried. Default: `TaskOptions.retries` if the tool is
            declared idempotent or read-only, else 0.
        backoff: How many seconds the first retry waits. Each further one waits twice as long, at most 5 minutes.
    """

    mode: TaskMode | None = None
    after: float | None = None
    timeout: float | None = None
    retries: int | None = None
    backoff: float | None = None

    def with_defaults(self, others: ToolTasks) -> ToolTasks:
        """Return these options, with those of `others` in place of None."""
        return others._replace(**{name: own for name, own in self._asdict().items() if own is not None})


def read_tool_tasks(given: ToolTasks | TaskMode) -> ToolTasks:
    """Return the options that a tool declares. Raises ValueError for an unknown mode, and for numbers below 0."""
    tasks = ToolTasks(mode=given) if isinstance(given, str) else given
    if tasks.mode not in (None, *get_args(TaskMode)):
        raise ValueError(f"tasks: expected {', '.join(get_args(TaskMode))} or ToolTasks, got {tasks.mode!r}")
    for name, value in tasks._asdict().items():
        if name != "mode" and value is not None and not 0 <= value < math.inf:
            raise ValueError(f"tasks: {name}: expected a number of at least 0, got {value!r}")
    return tasks


class TaskOptions(NamedTuple):
    """Which calls become tasks, and the limits of tasks.

    Attributes:
        after: See `ToolTasks`. Tools that require tasks have 0 by default.
        timeout: See `ToolTasks`.
        retries: See `ToolTasks`. Applies to tools that are declared idempotent or read-only.
        backoff: See `ToolTasks`.
        ttl: How many seconds a task and its result are kept, from its creation.
        poll: How many seconds clients should wait between two requests for the state of a task.
        most: The maximum number of tasks that are kept. If there are several clients, each has at most three quarters.
        size: The maximum number of bytes of the results that are kept.
        tools: Options of single tools, by patterns of their names; the first pattern that matches applies. They take
            precedence over what tools declare.
        url: Where tasks are kept: `memory://`, or a Redis at `redis://`, `rediss://` or `unix://`.
        concurrency: How many tasks this process runs at once. With Redis it may be 0: other processes run them.
        lease: Redis: how many seconds after its process has ended a task is started again in another one.
        attempts: Redis: how often a task is started before it fails, if every process that ran it has ended.
        drain: Redis: how many seconds the tasks of this process have to end with it, before others start them again.
    """

    after: float = 10.0
    timeout: float = 3600.0
    retries: int = 0
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
    """A call that runs as a task: the parameters of tools/call, and who sent it.

    Attributes:
        id: The handle of the task, which cannot be guessed.
        client: Whose quotas the task counts against; None if the server has only one client.
        created: In seconds since 1970.
        ttl: In seconds from `created`.
        timeout: In seconds of running, for each attempt.
        retries: How often the task is retried after a failure.
        backoff: In seconds, before the first retry.
        run: Which run of the task this is, counted from 1. A task runs again after a failure, and if its process ends.
        failures: How many attempts have failed.
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
        return self.created + self.ttl

    def compute_delay(self) -> float | None:
        """Return how many seconds after its failure the task is retried; None for never."""
        delay = min(self.backoff * 2.0 ** min(self.failures, 64), MAX_BACKOFF)
        return delay if self.failures < self.retries and time.time() + delay < self.expires else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """The state of a task at one time.

    Attributes:
        message: What the task is doing, or why it failed.
        progress: The last progress, its total if known, and its message.
        requests: What the client is asked, by key.
        result: The result of a completed task, as tools/call would have returned it.
        error: The JSON-RPC error of a failed task.
        updated: In seconds since 1970.
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
        return self.status in ("completed", "failed", "cancelled")


class TaskRecord(NamedTuple):
    """A task as its engine knows it."""

    order: TaskOrder
    state: TaskState


class RunnableTask(Protocol):
    """A call that an engine runs. It calls the listener that it was made with after each change of `state`."""

    state: TaskState

    async def run_to_end(self) -> float | None:
        """Run the call to a final state, or to a failure that the engine has to repeat.

        Returns after how many seconds the task is to run again; None if its state is final. Raises only if the task of
        the event loop is cancelled.
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
        """Run tasks until cancelled. Reports its start to `task_status`, as anyio does."""

    async def submit_task(self, order: TaskOrder) -> None:
        """Start a task. When this returns, `find_task` finds it. Raises Overloaded."""

    async def find_task(self, task_id: str) -> TaskRecord | None:
        """Return a task; None if it is unknown or has expired."""

    async def wait_for_change(self, task_id: str, seen: TaskState, seconds: float) -> TaskRecord | None:
        """Return a task once its state is no longer `seen`, or after `seconds` at the latest."""

    async def deliver_answers(self, task_id: str, responses: Mapping[str, Any]) -> None:
        """Pass the client's answers to a task."""

    async def cancel_task(self, task_id: str) -> None:
        """Cancel a task, unless it has ended."""

    async def remove_task(self, task_id: str) -> None:
        """Cancel a task and remove it: its client has the result, or wants none."""
