"""Lets agents start other agents, through the capabilities `session.spawn` and `session.resume` of their session.

A subagent has its own session of the modules, and it ends with the session of its parent. The configuration of the
subagent is laid over the plan of its parent. Its run is a part of the parent's tool call, so the limits, hooks and
approvals of calls apply, and cancelling the call cancels the subagent.

A subagent gets no more rights than its parent: it keeps the parent's hooks unless the settings exclude some, it has the
tools of its own modules and those that all agents above it pass on (`ToolFilter`), and it shares their limits. The
`SessionAgents` of its session have its depth and these filters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex, token_urlsafe
from typing import Any

from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._integrations.amplifier.agent.agent import Agent
from mcp_bridge._integrations.amplifier.agent.agent_tools import AgentCall
from mcp_bridge._integrations.amplifier.agent.overlays import (
    apply_preferences,
    dump_plan,
    exclude_hooks,
    is_declared,
    is_inherited,
    overlay_plan,
    read_field,
)
from mcp_bridge._integrations.amplifier.events import SESSION_FORK, SESSION_RESUME
from mcp_bridge._integrations.amplifier.inspection import RESUME, SPAWN
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, PlannedAgent, read_agent
from mcp_bridge._integrations.amplifier.running_call import AGENT_CALL, AGENT_RUN, TOOL_CALL
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.client_session import AGENT_KEYS
from mcp_bridge._integrations.amplifier.sessions.module_sessions import ModuleSessions

logger = logging.getLogger("mcp_bridge.amplifier")

MAX_AGENTS = 20
"""The maximum number of agents for one run, started directly or through others."""
MAX_DEPTH = 3
"""How many levels deep agents start others. With more, a model that delegates everything would only use up
`MAX_AGENTS`."""
SELF = "self"
"""The name for an agent with the same plan as its parent."""
_SELF_DEPTH = "self_delegation_depth"
"""The capability with the number of agents `self` above this one. Amplifier's tool-delegate reads it."""
_LIMIT_CODE = "agent_limit"
_ELSEWHERE = (
    "Agents cannot be started here: this tool runs in a worker process, but the agent that calls it does not, so its "
    "limits would not hold. Remove the tool from isolation.tools."
)
# Modules use the ids of sessions as names of files. Most file systems limit a name to 255 bytes.
_UNSAFE = re.compile(r"[^\w.-]")
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The parts of a source for starting agents.

    Attributes:
        agent: Runs the orchestrator of a session.
        sessions: The sessions of the source.
        create_session: Creates the session of a plan, with its id, under a parent.
        build_entries: Returns the tools of a session as entries. Raises ToolError if they cannot run here.
    """

    agent: Agent
    sessions: ModuleSessions
    create_session: Callable[[dict[str, Any], str, ModuleSession], ModuleSession]
    build_entries: Callable[[ModuleSession, PlannedAgent], Sequence[ToolEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilter:
    """Selects the tools of an agent: the inherited ones, and those of its own modules."""

    inheritance: Mapping[str, Sequence[str]]
    own_modules: Collection[str]

    def has_tool(self, owner: str, name: str) -> bool:
        return owner in self.own_modules or is_inherited(self.inheritance, "tools", owner, name)


@dataclass(slots=True, kw_only=True)
class StartedAgent:
    """A subagent of a session; `key` is the key of its own session, and `handle` the unguessable part of it."""

    name: str
    handle: str
    key: str
    session_id: str
    tools: Sequence[ToolEntry] = ()


@dataclass(slots=True, eq=False)
class SessionAgents:
    """Starts and resumes the subagents of one session.

    Attributes:
        delegation: The parts of the source.
        session: The session.
        plan: The plan of the session.
        config: The same plan, as modules read it.
        depth: How many agents are above the agent of the session.
        filters: The filters of the agent and of the agents above it.
        allows_self: Whether the agent can start `self`. It cannot if its configuration lists its possible subagents.
    """

    delegation: Delegation
    session: ModuleSession
    plan: MountPlan
    config: Mapping[str, Any]
    depth: int = 0
    filters: Sequence[ToolFilter] = ()
    allows_self: bool = True
    _started: dict[str, StartedAgent] = field(default_factory=dict)

    def register_capabilities(self) -> None:
        """Register the capabilities. The agents end with the session."""
        coordinator = self.session.coordinator
        coordinator.register_capability(SPAWN, self.spawn_agent)
        coordinator.register_capability(RESUME, self.resume_agent)
        coordinator.register_cleanup(self._end_agents)

    async def spawn_agent(
        self,
        agent_name: str,
        instruction: str,
        *,
        sub_session_id: str | None = None,
        tool_inheritance: Mapping[str, Any] | None = None,
        hook_inheritance: Mapping[str, Any] | None = None,
        orchestrator_config: Mapping[str, Any] | None = None,
        provider_preferences: Sequence[Any] | None = None,
        self_delegation_depth: int = 0,
        **others: Any,
    ) -> dict[str, Any]:
        """Start an agent of the plan, or `self`, and run it.

        Args:
            agent_name: The agent.
            instruction: Its task.
            sub_session_id: The id of its session; by default a new one. Characters with a meaning in paths are
            replaced.
            tool_inheritance: `exclude_tools` or `inherit_tools`: names of tools or of their modules.
            hook_inheritance: `exclude_hooks` or `inherit_hooks`: hook modules. It is applied only if a tool module
                of the plan has the same list in its configuration.
            orchestrator_config: Configuration of the orchestrator. It takes precedence over the one of this session.
            provider_preferences: Providers with their models. The first available one is used.
            self_delegation_depth: The value of the capability of this name, for tool-delegate.
            others: Ignored. The parent is this session, with the agents of its plan.

        Returns:
            `output`, `session_id`, `status` and `turn_count` of the run, and `metadata` with `agent` and `usage`.

        Raises:
            ToolError: There is no such agent, it cannot run, it fails, or a limit is reached.
            Overloaded: There are too many conversations.
            RuntimeError: No tool and no agent is running.
        """
        logger.debug("%s ignores: %s", SPAWN, ", ".join(others) or "nothing")
        call, agent = _get_running_call(), self._find_agent(agent_name)
        # Count first, because the number of concurrent agents is limited, too.
        self._count_agent()
        plan = overlay_plan(self.plan, agent, orchestrator_config or {})
        plan = self._exclude_hooks(plan, agent, hook_inheritance or {})
        preferences = _clean_preferences(provider_preferences or (), agent) or agent.provider_preferences
        plan = await apply_preferences(plan, preferences, self.session)
        session_id = self._build_id(sub_session_id, agent_name)
        child = self._create_child(plan, agent, session_id, tool_inheritance or {})
        if self_delegation_depth:
            child.session.coordinator.register_capability(_SELF_DEPTH, self_delegation_depth)
        handle = token_urlsafe(16)
        ctx = AgentCall(call, handle)
        started = StartedAgent(name=agent_name, handle=handle, key=ctx.state_key, session_id=session_id)
        sessions = self.delegation.sessions
        # Forget the agents whose sessions have ended.
        self._started = {name: entry for name, entry in self._started.items() if sessions.has_session(entry.key)}
        sessions.add_session(ctx, child.session, plan)
        self._cancel_with_parent(child.session)
        try:
            async with sessions.lease(ctx):
                started.tools = await child.prepare_tools(agent)
                self._started[session_id] = started
                return await self._run(started, child.session, ctx, instruction)
        except BaseException:
            # No caller has received the id, so nothing can resume this agent.
            self._started.pop(session_id, None)
            sessions.end_session(ctx.state_key)
            raise

    async def resume_agent(self, sub_session_id: str, instruction: str, **others: Any) -> dict[str, Any]:
        """Continue a subagent of this session.

        Raises FileNotFoundError if there is none with this id, and the errors of `spawn_agent`.
        """
        logger.debug("%s ignores: %s", RESUME, ", ".join(others) or "nothing")
        call, entry = _get_running_call(), self._started.get(sub_session_id)
        if entry is not None:
            ctx = AgentCall(call, entry.handle)
        # For another principal, the same handle gives another key, so no session is found.
        if entry is None or not self.delegation.sessions.has_session(ctx.state_key):
            raise FileNotFoundError(f"There is no agent session '{sub_session_id}', or it has ended. Start a new one.")
        async with self.delegation.sessions.lease(ctx) as session:
            await session.hooks.emit(SESSION_RESUME, {"agent": entry.name})
            return await self._run(entry, session, ctx, instruction)

    async def prepare_tools(self, agent: PlannedAgent) -> Sequence[ToolEntry]:
        """Prepare this session of a subagent, and return its tools. Raises ToolError."""
        session = self.session
        problem = self.delegation.agent.find_problem(session)
        if problem:
            raise ToolError(f"The agent '{agent.name}' cannot run: {problem}.", code="agent_unavailable")
        for name in session.get_tools():
            owner = session.find_owner("tools", name)
            is_own = owner in self.filters[-1].own_modules
            is_passed_on = all(tool_filter.has_tool(owner, name) for tool_filter in self.filters)
            if not is_own and not is_passed_on:
                # Unmount only the tool. Its module stays, because it may have hooks.
                session.coordinator.unmount("tools", name)
        entries = self.delegation.build_entries(session, agent)
        if agent.instructions:
            await session.coordinator.get("context").add_message({"role": "system", "content": agent.instructions})
        await session.hooks.emit(SESSION_FORK, {"agent": agent.name, "parent": session.coordinator.parent_id})
        return entries

    async def _run(
        self, entry: StartedAgent, session: ModuleSession, ctx: AgentCall, instruction: str
    ) -> dict[str, Any]:
        call = ToolCall(id=ctx.request_id, name=f"agent {entry.name}", arguments={"instruction": instruction})
        text, hooks = await self.delegation.agent.run_orchestrator(
            session, ctx, entry.tools, instruction, call=call, name=entry.name
        )
        if hooks.denial:
            raise ToolError(hooks.denial, code="denied")
        return {
            "output": text,
            "session_id": entry.session_id,
            "status": hooks.status or "success",
            "turn_count": hooks.turns,
            "metadata": {"agent": entry.name, "usage": hooks.usage},
        }

    def _find_agent(self, name: str) -> PlannedAgent:
        if name == SELF and self.allows_self:
            return PlannedAgent(name=name)
        if name not in self.plan.agents:
            names = ", ".join(sorted(map(str, self.plan.agents))) or "none"
            raise ToolError(f"There is no agent '{name}'. The agents are: {names}.", code="unknown_agent")
        return read_agent(name, self.plan.agents[name], self.plan.agents)[0]

    def _count_agent(self) -> None:
        run = AGENT_RUN.get()
        if self.depth >= MAX_DEPTH:
            reason = f"Agents start others at most {MAX_DEPTH} levels deep"
            raise ToolError(f"{reason}. Do this task without another agent.", code=_LIMIT_CODE)
        if run is None:
            return
        if run.outermost.started >= MAX_AGENTS:
            reason = f"This run has started {MAX_AGENTS} agents, which is the limit"
            raise ToolError(f"{reason}. Resume one of them, or do the task without another agent.", code=_LIMIT_CODE)
        run.outermost.started += 1

    def _exclude_hooks(self, plan: MountPlan, agent: PlannedAgent, inheritance: Mapping[str, Any]) -> MountPlan:
        """Return the plan without the hooks excluded by the settings.

        `inheritance` comes from a module. It has an effect only if the settings declare the same, because hooks enforce
        policies.
        """
        declared_inheritance = {}
        for key, names in inheritance.items():
            if names is None:
                continue
            # An empty list of excluded hooks excludes none. An empty list of inherited hooks excludes all.
            has_effect = names or key.startswith("inherit")
            if has_effect and not is_declared(self.plan, key, names):
                logger.warning(
                    "the agent '%s' keeps its hooks: %s (%s) is not in the settings", agent.name, key, ", ".join(names)
                )
                continue
            declared_inheritance[key] = names
        agent_hooks = {spec.module for spec in agent.plan.get_section("hooks")}
        result = exclude_hooks(plan, agent_hooks, agent.inheritance)
        result = exclude_hooks(result, agent_hooks, declared_inheritance)
        names = [spec.module for spec in plan.get_section("hooks") if spec not in result.modules]
        if names:
            logger.info("the agent '%s' runs without the hooks %s", agent.name, ", ".join(names))
        return result

    def _create_child(
        self, plan: MountPlan, agent: PlannedAgent, session_id: str, tool_inheritance: Mapping[str, Any]
    ) -> SessionAgents:
        config = dump_plan(plan, self.config)
        session = self.delegation.create_session(config, session_id, self.session)
        own_modules = {spec.module for spec in agent.plan.get_section("tools")}
        filters = list(self.filters)
        for inheritance in (tool_inheritance, agent.inheritance):
            filters.append(ToolFilter(inheritance=inheritance, own_modules=own_modules))
        child = SessionAgents(
            self.delegation,
            session,
            plan,
            config,
            depth=self.depth + 1,
            filters=filters,
            allows_self=agent.agents is None,
        )
        child.register_capabilities()
        return child

    def _cancel_with_parent(self, child: ModuleSession) -> None:
        """Cancel the session of a subagent when a module cancels this session."""
        cancellation = self.session.coordinator.cancellation
        child_cancellation = child.coordinator.cancellation
        cancellation.register_child(child_cancellation)
        child.coordinator.register_cleanup(partial(cancellation.unregister_child, child_cancellation))

    def _build_id(self, requested_id: str | None, agent: str) -> str:
        """Return the id of a new session. Raises ToolError if there is one with the requested id."""
        text = requested_id or f"{self.session.coordinator.session_id}-{token_hex(8)}_{agent}"
        session_id = _UNSAFE.sub("-", text)[-_LONGEST_ID:].lstrip(".")
        if session_id in self._started:
            raise ToolError(f"There is already an agent session '{session_id}'. Resume it, or omit its id.")
        return session_id

    def _end_agents(self) -> None:
        for entry in self._started.values():
            self.delegation.sessions.end_session(entry.key)
        self._started.clear()


def _get_running_call() -> RunningCall:
    call = TOOL_CALL.get() or AGENT_CALL.get()
    if call is None:
        raise RuntimeError(f"{SPAWN} and {RESUME} are available only while a tool or an agent runs")
    # Only in a worker, a call has no caller. The run of the agent that calls the tool is in another process then.
    if call.caller is None and AGENT_RUN.get() is None and call.state_key.startswith(AGENT_KEYS):
        raise ToolError(_ELSEWHERE, code="agent_unavailable")
    return call


def _clean_preferences(preferences: Sequence[Any], agent: PlannedAgent) -> list[dict[str, Any]]:
    """Return the providers and models of a module's preferences.

    A model may have written them, so any further configuration comes from the same preference in the settings.
    """
    result = []
    for preference in preferences:
        provider, model = read_field(preference, "provider"), read_field(preference, "model")
        config = None
        for declaration in agent.provider_preferences:
            if (declaration.get("provider"), declaration.get("model")) == (provider, model):
                config = declaration.get("config")
                break
        result.append({"provider": provider, "model": model, "config": config})
    return result
