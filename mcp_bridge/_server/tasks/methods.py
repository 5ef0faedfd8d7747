"""TaskMethods: tools/call for clients with tasks, and the methods and notifications of tasks (SEP-2663).

A call that may become a task is submitted to the task engine at once. For `after` seconds, it is served as an ordinary
call, with its progress, its questions and its result. If it has not ended by then, the client gets the task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.errors import CallError, ConfigError, MissingCapability, Overloaded
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY, RpcError
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import (
    MEMORY,
    TASKS,
    RunnableTask,
    TaskEngine,
    TaskOptions,
    TaskOrder,
    TaskRecord,
    ToolTasks,
)
from mcp_bridge._contracts.tool import ToolDefinition, ToolEntry
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge._protocol.wire.tasks import (
    REQUIRED_CAPABILITIES,
    declares_tasks,
    render_created,
    render_detailed,
    render_notification,
)
from mcp_bridge._protocol.wire.tools import to_mcp, to_wire
from mcp_bridge._server.change_notices import SUBSCRIPTIONS, ChangeNotifier, ListenEvent
from mcp_bridge._server.requests import Request
from mcp_bridge._server.responses import Responses
from mcp_bridge._server.tools.methods import ToolMethods
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._server.questions.request_state import StateSealer
    from mcp_bridge._server.tasks.run import TaskRun

_HANDLE_SIZE = 32
"""The number of random bytes in the handle of a task."""
_CHECK_INTERVAL = 60.0
"""Seconds after which a task that has not changed is checked, because it may have expired."""


class TaskMethods:
    """The MCP methods of tasks. `get_store` returns the store for the state of sessions.

    Attributes:
        desk: Asks users on the page if the client of a task cannot ask them.
    """

    def __init__(
        self,
        options: TaskOptions,
        registry: ToolRegistry,
        tools: ToolMethods,
        responses: Responses,
        notifier: ChangeNotifier,
        state: State,
        *,
        audience: str,
        get_store: Callable[[], Store],
    ) -> None:
        self._options = options
        self._registry = registry
        self._tools = tools
        self._responses = responses
        self._notifier = notifier
        self._state = state
        self._audience = f"{audience}/tasks"
        self._get_store = get_store
        self.desk: QuestionDesk | None = None
        # The pipelines of tasks by their time limits.
        self._pipelines: dict[float, Pipeline] = {}
        # The options of tools that have been called.
        self._chosen_options: WeakKeyDictionary[PreparedEntry, ToolTasks] = WeakKeyDictionary()
        self._sealer: StateSealer | None = None
        self._engine: TaskEngine = _make_engine(options, audience, responses.redactor.redact_value)

    @property
    def extensions(self) -> Mapping[str, Any]:
        """The extensions in the capabilities of the server (server/discover)."""
        return {TASKS: {}}

    @property
    def methods(self) -> Mapping[str, Callable[[Request, Mapping[str, Any]], Any]]:
        """The methods of the extension, by name."""
        return {
            "tasks/get": self.get_task,
            "tasks/update": self.update_task,
            "tasks/cancel": self.serve_cancel,
            "subscriptions/listen": self.open_stream,
        }

    async def run_tasks(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run tasks until cancelled."""
        await self._engine.run_tasks(self._make_task, task_status=task_status)

    async def call_tool(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve tools/call, as a task if the tool and the client allow it. Raises RpcError."""
        await self._tools.wait_for_tool(params["name"])
        options = self._find_options(request, params)
        if _supports_tasks(request) and options.mode != "forbidden":
            return await self._start_task(request, params, options)
        if options.mode != "required":
            return await self._tools.call(request, params)
        if has_feature(request.version, STATELESS):
            raise _make_missing_capability()
        # The handshake era has no error code for this, so the client gets a failed result.
        error = MissingCapability({"extensions": {TASKS: {}}})
        return self._render_problem(error, params["name"], request.version)

    async def get_task(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve tasks/get. Raises RpcError for an unknown task of this principal."""
        record = await self._find_own_task(request, params)
        return self._responses.add_server_info(render_detailed(record, self._options.poll))

    async def update_task(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve tasks/update: deliver the client's answers to the task. Raises as `get_task` does."""
        record = await self._find_own_task(request, params)
        responses = params.get("inputResponses")
        if not isinstance(responses, Mapping):
            raise RpcError(INVALID_PARAMS, "Invalid parameters of tasks/update: inputResponses: expected an object")
        await self._engine.deliver_answers(record.order.id, responses)
        return self._responses.complete_result({}, request.version)

    async def serve_cancel(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve tasks/cancel. Raises as `get_task` does."""
        record = await self._find_own_task(request, params)
        await self._engine.cancel_task(record.order.id)
        return self._responses.complete_result({}, request.version)

    async def open_stream(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve subscriptions/listen, with notifications of the tasks in `taskIds`. Unknown tasks are left out.

        Raises RpcError as `ChangeNotifier.listen` does, and if the client has not declared the extension.
        """
        ids = params["notifications"].get("taskIds")
        if not ids:
            return await self._notifier.listen(request, params)
        if not _supports_tasks(request):
            raise _make_missing_capability()
        if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids) or len(ids) > SUBSCRIPTIONS:
            text = f"notifications.taskIds: expected an array of at most {SUBSCRIPTIONS} strings"
            raise RpcError(INVALID_PARAMS, f"Invalid parameters of subscriptions/listen: {text}")
        records = []
        for task_id in dict.fromkeys(ids):
            record = await self._find_task(request, task_id)
            if record is not None:
                records.append(record)
        return await self._notifier.listen(request, params, TaskFeed(self._engine, records, self._options.poll))

    async def _find_own_task(self, request: Request, params: Mapping[str, Any]) -> TaskRecord:
        if not _supports_tasks(request):
            raise _make_missing_capability()
        task_id = params.get("taskId")
        if not isinstance(task_id, str):
            method = request.incoming.method
            raise RpcError(INVALID_PARAMS, f"Invalid parameters of {method}: taskId: expected type string")
        record = await self._find_task(request, task_id)
        if record is None:
            raise RpcError(INVALID_PARAMS, "Unknown task: it does not exist, or it has expired")
        return record

    async def _find_task(self, request: Request, task_id: str) -> TaskRecord | None:
        """Return the task if it belongs to the principal of the request, else None."""
        record = await self._engine.find_task(task_id)
        if record is None or record.order.principal != request.incoming.principal:
            return None
        return record

    def _find_options(self, request: Request, params: Mapping[str, Any]) -> ToolTasks:
        """Return the options for a call as a task, with the defaults of the server for missing ones."""
        prepared = self._tools.index.find_called(request, params)
        if prepared is None or not isinstance(prepared.entry, ToolEntry):
            return self._choose_options(params["name"], ToolTasks())
        options = self._chosen_options.get(prepared)
        if options is None:
            entry = prepared.entry
            options = self._choose_options(entry.name, entry.tasks or ToolTasks())
            self._chosen_options[prepared] = options
        return options

    def _choose_options(self, name: str, declared: ToolTasks) -> ToolTasks:
        """Return the options in the settings for a tool, then those it declares, then the defaults."""
        options = self._options
        tool_options = ToolTasks()
        for pattern, matching_options in options.tools.items():
            if fnmatchcase(name, pattern):
                tool_options = matching_options
                break
        tool_options = tool_options.with_defaults(declared)
        # A call that is always a task is one from the beginning.
        after = 0.0 if tool_options.mode == "required" else options.after
        return tool_options.with_defaults(ToolTasks("optional", after, options.timeout, 0, options.backoff))

    async def _start_task(self, request: Request, params: Mapping[str, Any], options: ToolTasks) -> dict[str, Any]:
        after = options.after or 0.0
        sealed_state = params.get("requestState")
        try:
            if sealed_state is None:
                task_id = await self._create_task(request, params, options)
                return await self._follow(request, task_id, after)
            # The call has asked the client, and this request has the answers.
            task_id = json.loads(self._get_sealer().open(sealed_state, **_bind(request)))
            return await self._follow(request, task_id, after, params.get("inputResponses"))
        except Overloaded as error:
            return self._render_problem(error, params["name"], request.version)

    async def _create_task(self, request: Request, params: Mapping[str, Any], options: ToolTasks) -> str:
        order = TaskOrder(
            id=token_urlsafe(_HANDLE_SIZE),
            params=params,
            version=request.version,
            request_id=request.id,
            principal=request.incoming.principal,
            client=request.incoming.client,
            created=time.time(),
            ttl=self._options.ttl,
            timeout=options.timeout or self._options.timeout,
            retries=options.retries or 0,
            backoff=options.backoff or 0.0,
        )
        await self._engine.submit_task(order)
        return order.id

    async def _follow(
        self, request: Request, task_id: str, after: float, responses: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Serve a call as an ordinary one for `after` seconds, with its progress, its questions and its result.

        Returns the result or the questions of the call, or the task if it has not ended in time.
        """
        try:
            if responses:
                await self._engine.deliver_answers(task_id, responses)
            record = await self._wait_until_ended(request, task_id, after)
            state = record.state
            if not state.is_final and not (state.status == "input_required" and after > 0):
                return self._responses.add_server_info(render_created(record, self._options.poll))
            if state.is_final and after > 0:
                return await self._take_result(record)
        except anyio.get_cancelled_exc_class():
            # Cancelling the request cancels its call.
            with anyio.CancelScope(shield=True):
                await self._engine.remove_task(task_id)
            raise
        # The call has ended at once, but it is always a task, so the client has to fetch the result.
        if state.is_final:
            return self._responses.add_server_info(render_created(record, self._options.poll))
        sealed_state = self._get_sealer().seal(json.dumps(task_id), **_bind(request))
        questions = {"inputRequests": dict(state.requests), "requestState": sealed_state}
        return {"resultType": "input_required", **questions}

    async def _wait_until_ended(self, request: Request, task_id: str, after: float) -> TaskRecord:
        """Wait until the task has ended or asks, but at most `after` seconds. Relays its progress."""
        end = anyio.current_time() + after
        progress = None
        record = await self._get_own(request, task_id)
        while record.state.status == "working":
            seconds = end - anyio.current_time()
            if seconds <= 0:
                break
            new_record = await self._engine.wait_for_change(task_id, record.state, seconds)
            record = new_record or await self._get_own(request, task_id)
            latest = record.state.progress
            # The progress of a retry begins again, but the values of a request must increase.
            if latest is not None and (progress is None or latest[0] > progress[0]):
                progress = latest
                await request.report_progress(*progress)
        return record

    async def _get_own(self, request: Request, task_id: str) -> TaskRecord:
        record = await self._find_task(request, task_id)
        if record is None:
            raise RpcError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        return record

    async def _take_result(self, record: TaskRecord) -> dict[str, Any]:
        """Remove a task the client does not know, and return its result. Raises the RpcError of the call."""
        order, state = record
        await self._engine.remove_task(order.id)
        if state.error is not None:
            raise RpcError(state.error["code"], state.error["message"], state.error.get("data"))
        if state.result is not None:
            return dict(state.result)
        error = CallError("The call was cancelled.")
        return self._render_problem(error, order.params["name"], order.version)

    def _render_problem(self, error: CallError, name: str, version: str) -> dict[str, Any]:
        """Return the result of a tool for an error."""
        result = to_mcp(to_error_result(error), to_wire(ToolDefinition(name, "", "")), version)
        return self._responses.add_server_info(result) if has_feature(version, STATELESS) else result

    def _make_task(self, order: TaskOrder, listener: Callable[[], None]) -> RunnableTask:
        # Only the first task needs this module, not the start.
        from mcp_bridge._server.tasks.run import TaskRun

        pipeline = self._pipelines.get(order.timeout)
        if pipeline is None:
            pipeline = self._pipelines[order.timeout] = self._registry.pipeline.with_timeout(order.timeout)
        execute = partial(self._execute, order)
        return TaskRun(
            order,
            execute,
            listener,
            registry=self._registry,
            pipeline=pipeline,
            get_store=self._get_store,
            desk=self.desk,
        )

    async def _execute(self, order: TaskOrder, run: TaskRun) -> Mapping[str, Any]:
        from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES
        from mcp_bridge._server.tasks.run import restore_request

        capabilities = order.params["_meta"][CLIENT_CAPABILITIES]
        incoming = restore_request(order)
        request = Request(
            incoming, self._responses.redactor, version=order.version, session=None, capabilities=capabilities
        )
        return await self._tools.call(request, order.params, run.run_in_pipeline)

    def _get_sealer(self) -> StateSealer:
        if self._sealer is None:
            from mcp_bridge._server.questions.request_state import StateSealer

            self._sealer = StateSealer(self._state.keys, ttl=self._state.ttl, audience=self._audience)
        return self._sealer


class TaskEvent(NamedTuple):
    """The notification of a changed task."""

    params: Mapping[str, Any]
    method: str = "notifications/tasks"


class TaskFeed:
    """Adds the states of tasks to a stream: at first, and after each change."""

    def __init__(self, engine: TaskEngine, records: Sequence[TaskRecord], poll: float) -> None:
        self._engine = engine
        self._records = records
        self._poll = poll

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """The member of the stream's acknowledgement with the existing tasks."""
        return {"taskIds": [record.order.id for record in self._records]}

    async def run(self, add_event: Callable[[ListenEvent], None]) -> None:
        """Add events until all tasks have ended or expired."""
        async with anyio.create_task_group() as tasks:
            for record in self._records:
                tasks.start_soon(self._follow_task, record, add_event)

    async def _follow_task(self, record: TaskRecord, add_event: Callable[[ListenEvent], None]) -> None:
        add_event(TaskEvent(render_notification(record, self._poll)))
        while not record.state.is_final:
            new_record = await self._engine.wait_for_change(record.order.id, record.state, _CHECK_INTERVAL)
            if new_record is None:
                return
            if new_record.state != record.state:
                add_event(TaskEvent(render_notification(new_record, self._poll)))
            record = new_record


def _make_engine(options: TaskOptions, name: str, redact: Callable[[Any], Any]) -> TaskEngine:
    if options.url == MEMORY:
        from mcp_bridge._storage.engines.memory import MemoryTasks

        return MemoryTasks(options)
    try:
        from mcp_bridge._storage.engines.redis import RedisTasks
    except ImportError as error:
        hint = f"Run `pip install '{DISTRIBUTION}[tasks]'`"
        raise ConfigError("tasks in Redis need docket", where="tasks", hint=hint) from error
    return RedisTasks(options, name, redact=redact)


def _supports_tasks(request: Request) -> bool:
    """Return whether the client supports tasks. It declares so in each request, which only the stateless era has."""
    return request.session is None and declares_tasks(request.capabilities)


def _make_missing_capability() -> RpcError:
    message = f"This needs a client that has declared the extension {TASKS}"
    return RpcError(MISSING_CAPABILITY, message, REQUIRED_CAPABILITIES)


def _bind(request: Request) -> dict[str, Any]:
    """Return the values that bind a request state to its request."""
    return {"method": "tools/call", "params": request.params, "principal": request.incoming.principal}
