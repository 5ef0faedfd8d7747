"""The Amplifier source: mounts the modules of a plan, publishes their tools, and applies their hooks to every call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import from_thread, to_thread

from mcp_bridge.amplifier.agent.agent import Agent, AgentOptions
from mcp_bridge.amplifier.events import PROMPT_SUBMIT, TOOL_ERROR, TOOL_POST, TOOL_PRE
from mcp_bridge.amplifier.governance.approval_gate import ApprovalGate
from mcp_bridge.amplifier.governance.hook_middleware import HookMiddleware
from mcp_bridge.amplifier.hosts import Host, choose_host, create_session
from mcp_bridge.amplifier.inspection import CALL_ID, reads_call_id
from mcp_bridge.amplifier.mount_plan import MountPlan
from mcp_bridge.amplifier.results import is_second_form, to_result
from mcp_bridge.amplifier.session import ModuleSession
from mcp_bridge.amplifier.source.approval_provider import register_approval_provider
from mcp_bridge.amplifier.source.events_log import MAX_BYTES, EventsLog, redact_config
from mcp_bridge.amplifier.source.resolver import Resolver
from mcp_bridge.amplifier.source.sessions import (
    NOT_ASKED,
    WORKING_DIR,
    ModuleSessions,
    SessionLimits,
    ask_for_root,
    list_module_handlers,
    log_fallback,
    require_session,
)
from mcp_bridge.amplifier.source.status import SourceStatus
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import SourceError, ToolUnavailable
from mcp_bridge.contracts.extension import Middleware, Publish
from mcp_bridge.contracts.handlers import is_async
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable
from mcp_bridge.runtime.thread_pool import CallSoon, make_call_soon

_ISOLATED_AGENT = "cannot run in a worker process. List the tools to isolate under isolation.tools"
_CALL_EVENTS = (TOOL_PRE, TOOL_POST, TOOL_ERROR, PROMPT_SUBMIT)


class AmplifierSource:
    """The modules of a mount plan, mounted for each client, on `host` (see amplifier/hosts.py).

    Args:
        name: The name of the source.
        plan: The modules.
        config: The plan as written, which modules read through their coordinator.
        directory: Where relative paths start. The current directory by default.
        hook_timeout: Seconds that one hook may take. A hook that takes longer, or raises, denies the call; after the
            tool has run, the client gets an error instead of its result.
        call_ids: Patterns of the names of tools that receive the id of the call, whatever their schema is.
        limits: Which clients share a session, and when sessions end.
        resolver: Finds the modules by their `source`.
        host: What mounts the modules.
        mount_timeout: Seconds that a module may take to mount, and again to become ready; None for no limit.
        events: The file of the events log. Workers do not write it, because only the bridge passes secrets to `hide`.
        events_size: Bytes at which that file is rotated.
        status: Whether clients can read what is mounted.
        agent: How the agent is published, if the plan's session has an orchestrator.

    The hooks are the source's `middleware`, and apply to calls of other sources as well. While a hook module of the
    plan is not mounted, every call is denied.
    """

    def __init__(
        self,
        name: str,
        plan: MountPlan,
        *,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        hook_timeout: float | None = 30.0,
        call_ids: Sequence[str] = (),
        limits: SessionLimits | None = None,
        resolver: Resolver | None = None,
        host: Literal["auto"] | Host = "auto",
        mount_timeout: float | None = 30.0,
        events: Path | None = None,
        events_size: int = MAX_BYTES,
        status: bool = True,
        agent: AgentOptions | None = None,
    ) -> None:
        self.name = name
        self._call_ids = tuple(call_ids)
        self._config = dict(config or {})
        self._directory = directory or Path.cwd()
        self._working_dir = self._directory
        self._resolver = resolver or Resolver(self._directory)
        self._hook_timeout = hook_timeout
        self._plan = plan
        self._host_setting = host
        self.host: Host = "native"
        self._changed = anyio.Event()
        self._call_soon: CallSoon | None = None
        self._handlers: dict[str, ToolHandler] = {}
        self.sessions = ModuleSessions(plan, self._create_session, limits or SessionLimits())
        self.asking = ApprovalGate()
        self.middleware: tuple[Middleware, ...] = (
            HookMiddleware(self.sessions.acquire_hooks, self.asking, self._count_call),
        )
        self._mount_timeout = mount_timeout
        self._installed: dict[str, Path | EntryPoint] = {}
        self._redactor = Redactor()
        self._events_log = EventsLog(events, self._redactor, events_size) if events is not None else None
        self._status = SourceStatus(name, self.sessions) if status else None
        self.agent = Agent(self.sessions, agent or AgentOptions()) if plan.orchestrator is not None else None
        self._notify_update: Callable[[str], None] | None = None

    def work_in(self, folder: Path, *, roots: bool = False) -> None:
        """Set the working directory of modules, their capability `session.working_dir`.

        With `roots`, it is the fallback for clients that list no roots, and for clients that share a session.
        """
        self._working_dir = folder
        if roots and self.sessions.limits.shared:
            log_fallback(NOT_ASKED)
        elif roots:
            self.sessions.ask_root = ask_for_root

    def disable_middleware(self) -> bool:
        """Mount the modules without hooks for calls, as in a worker. Return False if the plan lists hook modules.

        The agent is not published there, because the calls of its tools could not pass through the pipeline.
        """
        if self._plan.get_section("hooks"):
            return False
        self.middleware = ()
        self.agent = None
        return True

    def use_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Give the agent these tools of the source, some of which may run in workers."""
        if self.agent is not None:
            self.agent.tools = [entry for entry in tools if entry.handler != self.agent.run]

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these texts in the events log, and in the plan that session:start contains."""
        self._redactor.add_secrets(secrets)

    def set_update_listener(self, updated: Callable[[str], None]) -> None:
        """Call `updated` with the URI of each resource that changes. Only a bridge sets it."""
        self._notify_update = updated

    async def run(self, publish: Publish) -> None:
        """Run the sessions until cancelled. Raises SourceError where a plan mounts nothing, or has no host."""
        self._call_soon = make_call_soon()
        try:
            await self._run(publish)
        finally:
            self.sessions.stop()
            if self._events_log is not None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._events_log.close)

    async def _run(self, publish: Publish) -> None:
        self.host = await choose_host(self._host_setting, self._plan, self._resolver, [self._directory])
        async with anyio.create_task_group() as tasks:
            try:
                first = await self.sessions.start(tasks)
                problems = self._find_fatal_problems(first)
                published: Offer | None = None
                while not problems:
                    self._changed = anyio.Event()
                    offer = self._build_offer(first)
                    if offer != published:  # each publishing logs the problems again
                        self.use_tools(offer.tools)
                        publish(offer)
                        published = offer
                    if self._status is not None and self._notify_update is not None:
                        self._notify_update(self._status.uri)
                    await self._changed.wait()
                tasks.cancel_scope.cancel()
            finally:
                self.sessions.stop()
        raise SourceError("\n".join(problems))

    def _find_fatal_problems(self, first: ModuleSession) -> list[str]:
        handlers = first.hooks.list_handlers()
        governing = list_module_handlers({event: handlers.get(event, []) for event in _CALL_EVENTS})
        if governing and not self.middleware:
            names = ", ".join(f"'{name}'" for name in sorted(governing))
            problem = f"isolation: the modules register hooks for calls ({names}), which workers cannot run"
            return [f"{problem}. List the tools to isolate under isolation.tools, or remove isolation"]
        has_agent = self.agent is not None and not self.agent.find_problem(first)
        return first.problems if not (first.get_tools() or list_module_handlers(handlers) or has_agent) else []

    def _create_session(self, folder: Path | None) -> ModuleSession:
        """A session that is not started; `folder` is the client's working directory, if it has one."""
        config, folders = deepcopy(self._config), [self._directory]
        hooks: Any = {"fail_closed": (TOOL_PRE, TOOL_POST, PROMPT_SUBMIT), "timeout": self._hook_timeout}
        session = create_session(self.host, config, self._resolver, folders, self._schedule_publish, **hooks)
        session.coordinator.register_capability(WORKING_DIR, str(folder or self._working_dir))
        register_approval_provider(session.coordinator, self.asking)
        session.loader.step_timeout, session.loader.installed = self._mount_timeout, self._installed
        session.describe_config, session.on_change = self._redact_plan, self._schedule_publish
        if self._events_log is not None and self._notify_update is not None:
            self._events_log.record_standard_events(session.coordinator)
            session.on_ready = self._events_log.record_module_events
        return session

    def _redact_plan(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The plan without secrets; empty where `hide` has not received them, as in a worker."""
        return self._redactor.redact_value(redact_config(config)) if self._notify_update is not None else {}

    def _count_call(self, ctx: CallContext, result: ToolResult) -> None:
        session = self.sessions.find(ctx)
        if session is not None:
            session.stats.count(failed=bool(result.is_error))

    def _build_offer(self, session: ModuleSession) -> Offer:
        """What is mounted now. Where two tools have the same name, the first is published."""
        problems = list(session.problems)
        tools = self._build_entries(session, problems)
        if self.agent is not None:
            if problem := self.agent.find_problem(session):
                problems.append(f"the agent of the plan is not published: {problem}")
            else:
                tools = [*tools, self.agent.build_entry(tools)]
        elif self._plan.orchestrator is not None:
            problems.append(f"the agent of the plan is not published: it {_ISOLATED_AGENT}")
        resources = self._status.entries if self._status is not None else ()
        return Offer(tools=tools, resources=resources, problems=problems)

    def _build_entries(self, session: ModuleSession, problems: list[str]) -> list[ToolEntry]:
        """Return the mounted tools, and add what is wrong with others to `problems`."""
        found: dict[str, tuple[str, ToolEntry]] = {}
        tools = {key: tool for key, tool in session.get_tools().items() if key not in session.useless_tools}
        for key, tool in tools.items():
            try:
                handler = self._handlers.get(key)
                if handler is None or handler.tool is not tool:
                    # Kept for as long as the tool is mounted, because it learns the form of the tool's results.
                    handler = self._handlers[key] = ToolHandler(key, tool, self.sessions)
                entry = handler.build_entry()
                handler.wants_id = handler.wants_id or any(fnmatchcase(entry.name, one) for one in self._call_ids)
            except BaseException as error:  # a property of third-party code may raise anything
                if is_own_cancellation(error):
                    raise
                problems.append(f"tool '{key}' cannot be read: {describe_error(error)}")
                continue
            first, _ = found.setdefault(entry.name, (key, entry))
            if first != key:
                problems.append(
                    f"the tools mounted as '{first}' and '{key}' are both named '{entry.name}'. Rename one, or leave "
                    "one out; the first is published"
                )
        return [entry for _, entry in found.values()]

    def _schedule_publish(self) -> None:
        """Publish again soon. A module may mount something from a thread of its own."""
        if self._call_soon is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._call_soon(self._changed.set)


class ToolHandler:
    """Calls the tool that is mounted under `key` in the caller's session. `tool` is that of the first session.

    The id of the call is added, after validation, only for a tool that `wants_id`: its schema, its code or the settings
    ask for it, or it has returned a result in the form that carries it. Other tools may take any key for an argument.
    """

    def __init__(self, key: str, tool: Any, sessions: ModuleSessions) -> None:
        self.key = key
        self.tool = tool
        self._sessions = sessions
        self.wants_id = reads_call_id(tool)

    def build_entry(self) -> ToolEntry:
        tool = self.tool
        name, schema = str(getattr(tool, "name", "") or self.key), _read_schema(tool)
        properties = schema.get("properties")
        self.wants_id = self.wants_id or (isinstance(properties, Mapping) and CALL_ID in properties)
        # A synchronous `execute` runs in a thread, but a built-in one returns a future of the loop that calls it.
        on_loop = is_async(tool.execute) or inspect.isbuiltin(tool.execute)
        run: Callable[[Any, CallContext], Any] = self._run_async if on_loop else self._run_in_thread
        return ToolEntry(name, str(getattr(tool, "description", "") or ""), run, schema)

    async def _run_async(self, data: Any, ctx: CallContext) -> Any:
        async with self._sessions.lease(ctx) as session:  # no hooks hold a lease in a worker
            result = await resolve_awaitable(self._get_tool(session).execute(self._build_arguments(data, ctx)))
            return self._convert_result(result, ctx)

    def _run_in_thread(self, data: Any, ctx: CallContext) -> Any:
        if session := self._sessions.find(ctx):
            return self._execute_tool(session, data, ctx)
        acquired = from_thread.run(self._sessions.acquire, ctx)  # no hooks hold a lease
        try:
            result = self._execute_tool(require_session(acquired), data, ctx)
            return from_thread.run(resolve_awaitable, result) if inspect.isawaitable(result) else result
        finally:
            if acquired is not None:
                from_thread.run_sync(self._sessions.release_session, acquired)

    def _execute_tool(self, session: ModuleSession, data: Any, ctx: CallContext) -> Any:
        result = self._get_tool(session).execute(self._build_arguments(data, ctx))
        return self._wait_for_result(result, ctx) if inspect.isawaitable(result) else self._convert_result(result, ctx)

    async def _wait_for_result(self, result: Awaitable[Any], ctx: CallContext) -> Any:
        return self._convert_result(await result, ctx)

    def _get_tool(self, session: ModuleSession) -> Any:
        tool = session.get_tool(self.key)
        if tool is None:
            raise ToolUnavailable(f"The tool mounted as '{self.key}' is not mounted in this session.")
        return tool

    def _build_arguments(self, data: Any, ctx: CallContext) -> Any:
        if not isinstance(data, Mapping | None):
            return data  # the schema of the tool is not that of an object
        arguments = dict(data or {})
        if self.wants_id:
            arguments.setdefault(CALL_ID, ctx.request_id)
        return arguments

    def _convert_result(self, result: Any, ctx: CallContext) -> Any:
        self.wants_id = self.wants_id or is_second_form(result)
        return to_result(result, ctx.request_id)


def _read_schema(tool: Any) -> dict[str, Any]:
    """The `input_schema` of a tool, else its `get_schema()`, else the schema of any object."""
    schema = getattr(tool, "input_schema", None)
    if schema is None and callable(getattr(tool, "get_schema", None)):
        schema = tool.get_schema()
    return dict(schema) if isinstance(schema, Mapping) and schema else {"type": "object"}
