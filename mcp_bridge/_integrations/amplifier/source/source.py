"""The Amplifier source: mounts the modules of a plan, publishes their tools, and applies their hooks to every call."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal, Self

import anyio

from mcp_bridge._contracts.errors import SourceError, ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext, SourceServices, ToolSelection
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._engine.selection import Selection
from mcp_bridge._integrations.amplifier.agent.agent import Agent
from mcp_bridge._integrations.amplifier.agent.delegation import Delegation, SessionAgents
from mcp_bridge._integrations.amplifier.agent.overlays import find_unknown_names
from mcp_bridge._integrations.amplifier.events import DECISIVE_EVENTS, PROMPT_SUBMIT, TOOL_ERROR, TOOL_POST, TOOL_PRE
from mcp_bridge._integrations.amplifier.hook_middleware import HookMiddleware
from mcp_bridge._integrations.amplifier.hosts import Host, choose_host, create_session, find_missing_modules
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, PlannedAgent, read_plan
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.module_sessions import WORKING_DIR, ModuleSessions, SessionLimits
from mcp_bridge._integrations.amplifier.sessions.roots import NOT_ASKED, ask_for_root, log_fallback
from mcp_bridge._integrations.amplifier.source.approval_provider import (
    BridgeApprovalSystem,
    BridgeDisplaySystem,
    register_approval_provider,
)
from mcp_bridge._integrations.amplifier.source.options import SESSIONS, AmplifierOptions
from mcp_bridge._integrations.amplifier.source.resolver import Resolver
from mcp_bridge._integrations.amplifier.source.status import StatusResources
from mcp_bridge._integrations.amplifier.source.tool_handler import ToolHandler
from mcp_bridge._json_schema.secret_names import is_secret_key
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge._protocol.wire.values import Unreadable, to_plain
from mcp_bridge._runtime.redaction import MARK, Redactor
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation
from mcp_bridge._runtime.thread_pool import CallSoon, make_call_soon

logger = logging.getLogger("mcp_bridge.amplifier")

_CALL_EVENTS = (TOOL_PRE, TOOL_POST, TOOL_ERROR, PROMPT_SUBMIT)


class AmplifierSource(Source):
    """The source of the modules of a mount plan. Each client has its own instances of them (see `ModuleSessions`).

    Args:
        name: The name of the source.
        plan: The modules.
        config: The plan as written. Modules read it through their coordinator.
        directory: Where relative paths start. The current directory by default.
        hook_timeout: The timeout of one hook in seconds. A hook denies the call if it takes longer or raises; after the
            tool has run, the client gets an error instead of the result.
        limits: Whether clients share a session, and when sessions end.
        resolver: Finds the modules by their `source`.
        host: The host of the modules (see `hosts.py`).
        start_timeout: The seconds for the `mount` of a module, and again for its `on_session_ready`; None for no limit.

    The hooks are the source's `middleware`, and apply to calls of other sources, too. While a hook module of the
    plan is not mounted, every call is denied.
    """

    Options = AmplifierOptions
    asking: ApprovalGate

    def __init__(
        self,
        name: str,
        plan: MountPlan,
        *,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        hook_timeout: float | None = 30.0,
        limits: SessionLimits | None = None,
        resolver: Resolver | None = None,
        host: Literal["auto"] | Host = "auto",
        start_timeout: float | None = 30.0,
    ) -> None:
        super().__init__(name)
        self._config = dict(config or {})
        self._directory = directory or Path.cwd()
        self._working_dir = self._directory
        self._resolver = resolver or Resolver(self._directory)
        self._hook_timeout = hook_timeout
        self._plan = plan
        self._host_setting = host
        self.host: Host = "native"
        self._missing: list[str] = []
        self._changed = anyio.Event()
        self._call_soon: CallSoon | None = None
        self._handlers: dict[str, ToolHandler] = {}
        self._selection: ToolSelection = Selection()
        self._tools: Sequence[ToolEntry] = ()
        self.sessions = ModuleSessions(plan, self._create_session, limits or SessionLimits())
        self.asking = ApprovalGate()
        self.middleware = (HookMiddleware(self.sessions.acquire_hooks, self.asking, self._count_call),)
        self._mount_timeout = start_timeout
        self._installed: dict[str, Path | EntryPoint] = {}
        self._reported: set[str] = set()
        self._redactor = Redactor()
        self._status = StatusResources(name, self.sessions)
        self.agent: Agent | None = None
        if plan.orchestrator is not None:
            self.agent = Agent(self.sessions, self.asking)

    @classmethod
    def choose_name(cls, options: AmplifierOptions) -> str:
        return "amplifier"

    @classmethod
    def build(cls, name: str, options: AmplifierOptions, context: SourceContext) -> Self:
        """Build the source. Relative paths in the plan start at the folder of the settings."""
        plan, _ = read_plan(options.plan)
        directory = context.directory.resolve()
        modules = options.get_checkouts_folder(directory)
        limit = options.sessions if isinstance(options.sessions, int) else SESSIONS
        source = cls(
            name,
            plan,
            config=options.plan,
            directory=directory,
            hook_timeout=options.hook_timeout,
            limits=SessionLimits(shared=options.sessions == "shared", limit=limit, conversations=limit),
            host=options.host,
            start_timeout=options.start_timeout,
            resolver=Resolver(directory, git=options.git, modules=modules, file=options.settings_path),
        )
        if context.working_dir is None:
            return source
        # With `working_dir: roots`, this is the folder of clients without roots, and of clients that share a session.
        source._working_dir = context.working_dir
        if context.uses_roots and source.sessions.limits.shared:
            log_fallback(NOT_ASKED)
        elif context.uses_roots:
            source.sessions.ask_root = ask_for_root
        return source

    def disable_middleware(self) -> bool:
        """Run no hooks around calls, as in a worker. Return False if the plan lists hook modules."""
        if self._plan.get_section("hooks"):
            return False
        self.middleware = ()
        return True

    def attach(self, services: SourceServices) -> None:
        """Store the selection, so that agents get only the selected tools, with their overrides and published names."""
        super().attach(services)
        self._selection = services.selection or Selection()

    def use_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Give the agent these tools of the source. Some of them may run in workers."""
        if self.agent is not None:
            self._tools = [entry for entry in tools if entry.handler != self.agent.run]
            self.agent.tools = self._select_entries(self._tools)
            self.agent.published_name = self._selection.choose_name(self.agent.name)

    def _select_entries(self, tools: Iterable[ToolEntry]) -> list[ToolEntry]:
        return list(self._selection.select_tools(tools, self.name))

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these texts in the plan of session:start."""
        self._redactor.add_secrets(secrets)

    async def run(self, publish: Publish) -> None:
        """Run the sessions until cancelled. Raises SourceError if the plan mounts nothing, or has no host."""
        self._call_soon = make_call_soon()
        self.host = await choose_host(self._host_setting, self._plan, self._resolver, [self._directory])
        self._missing = await find_missing_modules(self._plan, self._resolver, [self._directory])
        async with anyio.create_task_group() as tasks:
            try:
                first = await self.sessions.start(tasks)
                problems = self._find_fatal_problems(first)
                published_offer: Offer | None = None
                while not problems:
                    # A change while the offer is built must cause another one.
                    self._changed = anyio.Event()
                    offer = self._build_offer(first)
                    # Publishing logs the problems, so an equal offer is not published again.
                    if offer != published_offer:
                        self.use_tools(offer.tools)
                        publish(offer)
                        published_offer = offer
                    if self.services.report_update is not None:
                        self.services.report_update(self._status.uri)
                    await self._changed.wait()
                tasks.cancel_scope.cancel()
            finally:
                self.sessions.stop()
        raise SourceError("\n".join(problems))

    def _find_fatal_problems(self, first: ModuleSession) -> list[str]:
        """Return why nothing can be published: hooks cannot run here, or no module has mounted anything."""
        governing_handlers = _list_governing_handlers(first)
        if not self.middleware and governing_handlers:
            names = ", ".join(f"'{name}'" for name in sorted(governing_handlers))
            problem = f"isolation: the modules register hooks for calls ({names}), which workers cannot run"
            return [f"{problem}. List the tools to isolate under isolation.tools, or remove isolation"]
        has_agent = self.agent is not None and not self.agent.find_problem(first)
        if first.get_tools() or first.hooks.list_handlers() or has_agent:
            return []
        return first.problems

    def _create_session(self, folder: Path | None, session_id: str | None = None) -> ModuleSession:
        """Create a session without starting it; `folder` is the client's own working directory, or None."""
        working_dir = str(folder or self._working_dir)
        session = self._build_session(deepcopy(self._config), working_dir, (session_id, None))
        if self.agent is not None:
            delegation = Delegation(
                agent=self.agent,
                sessions=self.sessions,
                create_session=self._create_child_session,
                build_entries=self._build_child_entries,
            )
            SessionAgents(delegation, session, self._plan, self._config).register_capabilities()
        return session

    def _create_child_session(self, config: dict[str, Any], session_id: str, parent: ModuleSession) -> ModuleSession:
        """Create the session of a subagent, in the working directory of its parent."""
        folder = parent.coordinator.get_capability(WORKING_DIR)
        return self._build_session(config, folder, (session_id, parent.coordinator.session_id))

    def _build_session(
        self, config: dict[str, Any], folder: str, ids: tuple[str | None, str | None] = (None, None)
    ) -> ModuleSession:
        hooks: Any = {"fail_closed": {TOOL_PRE, TOOL_POST, *DECISIVE_EVENTS}, "timeout": self._hook_timeout}
        folders = [self._directory]
        session = create_session(self.host, config, self._resolver, folders, self._schedule_publish, ids, **hooks)
        session.coordinator.register_capability(WORKING_DIR, folder)
        register_approval_provider(session.coordinator, self.asking)
        session.coordinator.approval_system = BridgeApprovalSystem(self.asking)
        session.coordinator.display_system = BridgeDisplaySystem()
        session.loader.step_timeout, session.loader.installed = self._mount_timeout, self._installed
        session.loader.reported = self._reported
        session.describe_config, session.on_change = self._redact_plan, self._schedule_publish
        return session

    def _redact_plan(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan without secrets; empty in a worker, because `hide` does not receive the secrets there."""
        if self.services.report_update is None:
            return {}
        return self._redactor.redact_value(redact_config(config))

    def _count_call(self, ctx: RunningCall, result: ToolResult) -> None:
        session = self.sessions.find(ctx)
        if session is not None:
            session.stats.calls += 1
            session.stats.errors += bool(result.is_error)

    def _build_offer(self, session: ModuleSession) -> Offer:
        """Return the mounted tools as an offer. If two tools have the same name, the first is published."""
        problems = list(session.problems)
        tools = self._build_entries(session, problems, self._handlers)
        if self.agent is not None:
            problem = self.agent.find_problem(session)
            if problem:
                problems.append(f"the agent of the plan is not published: {problem}")
            else:
                problems += self._missing
                problems += find_unknown_names(self._plan, session.get_tools())
                tools.append(self.agent.build_entry(tools, self._select_entries(tools)))
        elif self._plan.agents:
            problems.append("agents: none of them can run, because the session of the plan has no orchestrator")
        resources = self._status.entries
        return Offer(tools=tools, resources=resources, problems=problems, partial=True)

    def _build_child_entries(self, session: ModuleSession, agent: PlannedAgent) -> list[ToolEntry]:
        """Return the tools of a subagent. Isolated tools run in workers for subagents, too.

        Raises ToolError if the subagent has its own tool modules and there are workers, because these do not have the
        modules. In a worker, also raises ToolError if the subagent has hooks, because the worker does not run them.
        """
        isolated_entries = {entry.name: entry for entry in self._tools if not _runs_here(entry)}
        problem = ""
        if self._loses_hooks(session, agent):
            problem = "has hooks for calls, which a worker process cannot run (isolation)"
        elif isolated_entries and agent.plan.get_section("tools"):
            problem = "has tools of its own, which cannot run in worker processes (isolation.tools)"
        if problem:
            raise ToolError(f"The agent '{agent.name}' cannot run: it {problem}.", code="agent_unavailable")
        problems: list[str] = []
        entries = self._build_entries(session, problems, {})
        for problem in problems:
            logger.warning("the agent '%s': %s", agent.name, problem)
        return self._select_entries(isolated_entries.get(entry.name, entry) for entry in entries)

    def _loses_hooks(self, session: ModuleSession, agent: PlannedAgent) -> bool:
        """Return whether this is a worker, and an agent has hooks. They would not apply to its calls."""
        # Workers have no service for updates.
        if self.services.report_update is not None:
            return False
        return bool(agent.plan.get_section("hooks") or (not self.middleware and _list_governing_handlers(session)))

    def _build_entries(
        self, session: ModuleSession, problems: list[str], handlers: dict[str, ToolHandler]
    ) -> list[ToolEntry]:
        """Return the mounted tools, and add the problems of others to `problems`."""
        entries: dict[str, tuple[str, ToolEntry]] = {}
        for key, tool in session.get_tools().items():
            if key in session.useless_tools:
                continue
            try:
                handler = handlers.get(key)
                if handler is None or handler.tool is not tool:
                    # The handler stays as long as the tool, because it learns from results whether to pass the call id.
                    handler = ToolHandler(key, tool, self.sessions)
                    handlers[key] = handler
                entry = handler.build_entry()
            except BaseException as error:
                # The properties of third-party tools may raise anything.
                if is_own_cancellation(error):
                    raise
                problems.append(f"tool '{key}' cannot be read: {describe_error(error)}")
                continue
            first_key, _ = entries.setdefault(entry.name, (key, entry))
            if first_key != key:
                problems.append(
                    f"the tools mounted as '{first_key}' and '{key}' are both named '{entry.name}'. Rename one, or "
                    "leave one out; the first is published"
                )
        return [entry for _, entry in entries.values()]

    def _schedule_publish(self) -> None:
        """Publish again soon. A module may call this in any thread, by mounting a tool."""
        if self._call_soon is not None:
            # A thread may outlast the event loop, which then raises RuntimeError.
            with suppress(RuntimeError):
                self._call_soon(self._changed.set)


def _list_governing_handlers(session: ModuleSession) -> set[str]:
    """Return the names of the hooks for the events of calls."""
    handlers = session.hooks.list_handlers()
    names: set[str] = set()
    for event in _CALL_EVENTS:
        names.update(handlers.get(event, ()))
    return names


def redact_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the values under names of secrets; empty if it is no JSON."""
    try:
        result: dict[str, Any] = _redact_named_secrets(to_plain(config))
    except Unreadable:
        return {}
    return result


def _redact_named_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_redact_named_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, item in value.items():
        if item and is_secret_key(key):
            result[key] = MARK
        else:
            result[key] = _redact_named_secrets(item)
    return result


def _runs_here(entry: ToolEntry) -> bool:
    """Return whether an entry runs in this process. The entry of an isolated tool has the handler of the isolation."""
    return isinstance(getattr(entry.handler, "__self__", None), ToolHandler)
