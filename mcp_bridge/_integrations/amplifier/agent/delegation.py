"""Agents that start others: the capabilities `session.spawn` and `session.resume` of a session.

A started agent has its own session of the modules. The plan of this session is laid over that of the session that
starts it, and it ends with that session. The run of the agent is a part of the tool call that starts it, so the limits,
hooks and approvals of calls apply, and cancelling the call cancels the agent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex, token_urlsafe
from typing import Any

from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._integrations.amplifier.agent.agent import Agent, AgentOptions
from mcp_bridge._integrations.amplifier.agent.agent_tools import AgentCall
from mcp_bridge._integrations.amplifier.agent.overlays import (
    apply_preferences,
    dump_plan,
    exclude_hooks,
    is_declared,
    is_inherited,
    overlay_plan,
)
from mcp_bridge._integrations.amplifier.events import SESSION_FORK, SESSION_RESUME
from mcp_bridge._integrations.amplifier.mount_plan import MountPlan, PlannedAgent, read_agent
from mcp_bridge._integrations.amplifier.running_call import AGENT_CALL, AGENT_RUN, TOOL_CALL
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.client_session import AGENT_KEYS
from mcp_bridge._integrations.amplifier.sessions.module_sessions import ModuleSessions

logger = logging.getLogger("mcp_bridge.amplifier")

SPAWN = "session.spawn"
RESUME = "session.resume"
SELF = "self"
"""The name by which an agent starts another one of its own kind."""
_SELF_DEPTH = "self_delegation_depth"  # the capability by which tool-delegate counts agents that start themselves
_PREFERENCE = ("provider", "model")
_LIMIT_CODE = "agent_limit"
_ELSEWHERE = (
    "Agents cannot be started here: this tool runs in a worker process, but the agent that calls it does not, so its "
    "limits would not hold. Remove the tool from isolation.tools."
)
_UNSAFE = re.compile(r"[^\w.-]")  # modules use ids as names of files
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """What a session needs to start agents.

    Attributes:
        agent: Runs the orchestrator of a session.
        sessions: The sessions of the source.
        limits: How many agents may be started.
        create_session: Creates the session of a plan, with its id and that of the session that starts it.
        build_entries: Returns the tools of a session as entries. Raises ToolError if they cannot run here.
    """

    agent: Agent
    sessions: ModuleSessions
    limits: AgentOptions
    create_session: Callable[[dict[str, Any], str, ModuleSession], ModuleSession]
    build_entries: Callable[[ModuleSession, PlannedAgent], Sequence[ToolEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilter:
    """Which tools of a session an agent has: those that it inherits, and those of its own modules `own`."""

    inheritance: Mapping[str, Sequence[str]]
    own: Collection[str]

    def has_tool(self, owner: str, name: str) -> bool:
        return owner in self.own or is_inherited(self.inheritance, "tools", owner, name)


@dataclass(slots=True, kw_only=True)
class StartedAgent:
    """An agent that a session has started; `handle` is the unguessable part of the key of its own session."""

    name: str
    handle: str
    session_id: str
    tools: Sequence[ToolEntry] = ()


@dataclass(slots=True, eq=False)
class SessionAgents:
    """The agents that one session has started.

    `filters` are those of the session's own agent and of the agents above it. `allows_self` is whether the session may
    start agents of its own kind, which it may not if its configuration lists the agents that it may start.
    """

    delegation: Delegation
    session: ModuleSession
    plan: MountPlan
    config: Mapping[str, Any]
    depth: int = 0
    filters: tuple[ToolFilter, ...] = ()
    allows_self: bool = True
    _started: dict[str, tuple[str, StartedAgent]] = field(default_factory=dict)

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
            instruction: What it has to do.
            sub_session_id: The id of its session; by default a new one. Characters that no file name can have are
                replaced.
            tool_inheritance: `exclude_tools` or `inherit_tools`: names of tools or of their modules.
            hook_inheritance: `exclude_hooks` or `inherit_hooks`: hook modules. It is applied only if a tool module
                of the plan has the same list in its configuration.
            orchestrator_config: Configuration of the orchestrator, which takes precedence over that of this session.
            provider_preferences: Providers with their models, of which the first that is available is used.
            self_delegation_depth: The value of the capability of this name, which tool-delegate reads.
            others: Ignored. The session that starts the agent is this one, and its agents are those of its plan.

        Returns:
            `output`, `session_id`, `status` and `turn_count` of the run, and `metadata` with `agent` and `usage`.

        Raises:
            ToolError: There is no such agent, it cannot run, it fails, or a limit is reached.
            Overloaded: There are too many conversations.
            RuntimeError: No tool and no agent is running.
        """
        logger.debug("%s ignores: %s", SPAWN, ", ".join(others) or "nothing")
        call, agent = _get_running_call(), self._find_agent(agent_name)
        self._count_agent()
        preferences = _clean_preferences(provider_preferences, agent) or agent.provider_preferences
        plan = overlay_plan(self.plan, agent, orchestrator_config or {})
        plan = await apply_preferences(
            self._exclude_hooks(plan, agent, hook_inheritance or {}), preferences, self.session
        )
        session_id = self._build_id(sub_session_id, agent_name)
        child = self._create_child(plan, agent, session_id, tool_inheritance or {})
        if self_delegation_depth:
            child.session.coordinator.register_capability(_SELF_DEPTH, self_delegation_depth)
        started = StartedAgent(name=agent_name, handle=token_urlsafe(16), session_id=session_id)
        ctx = AgentCall(call, started.handle)
        self._forget_ended()
        self.delegation.sessions.add_session(ctx, child.session, plan)
        try:
            async with self.delegation.sessions.lease(ctx):
                started.tools = await child.prepare_tools(agent)
                self._started[session_id] = (ctx.state_key, started)
                return await self._run(started, child.session, ctx, instruction)
        except BaseException:  # no caller has received its id
            self._started.pop(session_id, None)
            self.delegation.sessions.end_session(ctx.state_key)
            raise

    async def resume_agent(self, sub_session_id: str, instruction: str, **others: Any) -> dict[str, Any]:
        """Continue an agent that this session has started.

        Raises FileNotFoundError if there is none with this id, and the errors of `spawn_agent`.
        """
        logger.debug("%s ignores: %s", RESUME, ", ".join(others) or "nothing")
        call, found = _get_running_call(), self._started.get(sub_session_id)
        ctx = AgentCall(call, found[1].handle) if found is not None else None
        if found is None or ctx is None or not self.delegation.sessions.has_session(ctx):
            raise FileNotFoundError(f"There is no agent session '{sub_session_id}', or it has ended. Start a new one.")
        async with self.delegation.sessions.lease(ctx) as session:
            await session.hooks.emit(SESSION_RESUME, {"agent": found[1].name})
            return await self._run(found[1], session, ctx, instruction)

    async def prepare_tools(self, agent: PlannedAgent) -> Sequence[ToolEntry]:
        """Prepare this session, which another one has started, and return its tools. Raises ToolError."""
        session = self.session
        if problem := self.delegation.agent.find_problem(session):
            raise ToolError(f"The agent '{agent.name}' cannot run: {problem}.", code="agent_unavailable")
        for name in session.get_tools():
            owner = session.find_owner("tools", name)
            if owner not in self.filters[-1].own and not all(one.has_tool(owner, name) for one in self.filters):
                session.coordinator.unmount("tools", name)  # its module stays mounted, because it may have hooks
        entries = self.delegation.build_entries(session, agent)
        if agent.instructions:
            await session.coordinator.get("context").add_message({"role": "system", "content": agent.instructions})
        await session.hooks.emit(SESSION_FORK, {"agent": agent.name, "parent": session.coordinator.parent_id})
        return entries

    async def _run(
        self, started: StartedAgent, session: ModuleSession, ctx: AgentCall, instruction: str
    ) -> dict[str, Any]:
        call = ToolCall(id=ctx.request_id, name=f"agent {started.name}", arguments={"instruction": instruction})
        text, hooks = await self.delegation.agent.run_orchestrator(
            session, ctx, started.tools, instruction, call=call, name=started.name
        )
        if hooks.denial:
            raise ToolError(hooks.denial, code="denied")
        metadata = {"agent": started.name, "usage": hooks.usage}
        status = hooks.status or "success"
        result = {"output": text, "session_id": started.session_id, "status": status, "turn_count": hooks.turns}
        return {**result, "metadata": metadata}

    def _find_agent(self, name: str) -> PlannedAgent:
        if name == SELF and self.allows_self:
            return PlannedAgent(name=name)
        if name not in self.plan.agents:
            known = ", ".join(sorted(map(str, self.plan.agents))) or "none"
            raise ToolError(f"There is no agent '{name}'. The agents are: {known}.", code="unknown_agent")
        return read_agent(name, self.plan.agents[name], self.plan.agents)[0]

    def _count_agent(self) -> None:
        limits, run = self.delegation.limits, AGENT_RUN.get()
        if self.depth >= limits.max_depth:
            reason = f"Agents start others at most {limits.max_depth} levels deep (agent.max_depth)"
            raise ToolError(f"{reason}. Do this task without another agent.", code=_LIMIT_CODE)
        if run is None:
            return
        if run.outermost.started >= limits.max_agents:
            reason = f"This run has started {limits.max_agents} agents, which is the limit (agent.max_agents)"
            raise ToolError(f"{reason}. Resume one of them, or do the task without another agent.", code=_LIMIT_CODE)
        run.outermost.started += 1

    def _exclude_hooks(self, plan: MountPlan, agent: PlannedAgent, given: Mapping[str, Any]) -> MountPlan:
        """Exclude the hooks that the settings exclude. A module cannot by itself, because hooks enforce policies."""
        accepted = {key: names for key, names in given.items() if names is not None}
        for key, names in list(accepted.items()):
            if (names or key.startswith("inherit")) and not is_declared(self.plan, key, names):
                logger.warning(
                    "the agent '%s' keeps its hooks: %s (%s) is not in the settings", agent.name, key, ", ".join(names)
                )
                del accepted[key]
        own = {spec.module for spec in agent.plan.get_section("hooks")}
        chosen = exclude_hooks(exclude_hooks(plan, own, agent.inheritance), own, accepted)
        excluded = [spec.module for spec in plan.get_section("hooks") if spec not in chosen.modules]
        if excluded:
            logger.info("the agent '%s' runs without the hooks %s", agent.name, ", ".join(excluded))
        return chosen

    def _create_child(
        self, plan: MountPlan, agent: PlannedAgent, session_id: str, tool_inheritance: Mapping[str, Any]
    ) -> SessionAgents:
        config = dump_plan(plan, self.config)
        session = self.delegation.create_session(config, session_id, self.session)
        own = {spec.module for spec in agent.plan.get_section("tools")}
        filters = [ToolFilter(inheritance=one, own=own) for one in (tool_inheritance, agent.inheritance)]
        kept, is_free = (*self.filters, *filters), agent.agents is None
        child = SessionAgents(self.delegation, session, plan, config, self.depth + 1, kept, is_free)
        child.register_capabilities()
        return child

    def _build_id(self, given: str | None, agent: str) -> str:
        """Return the id of a new session. Raises ToolError if there is one with the given id."""
        text = given or f"{self.session.coordinator.session_id}-{token_hex(8)}_{agent}"
        session_id = _UNSAFE.sub("-", text)[-_LONGEST_ID:].lstrip(".")
        if session_id in self._started:
            raise ToolError(f"There is already an agent session '{session_id}'. Resume it, or omit its id.")
        return session_id

    def _forget_ended(self) -> None:
        has_key = self.delegation.sessions.has_key
        self._started = {name: found for name, found in self._started.items() if has_key(found[0])}

    def _end_agents(self) -> None:
        for key, _ in self._started.values():
            self.delegation.sessions.end_session(key)
        self._started.clear()


def _get_running_call() -> RunningCall:
    call = TOOL_CALL.get() or AGENT_CALL.get()
    if call is None:
        raise RuntimeError(f"{SPAWN} and {RESUME} are available only while a tool or an agent runs")
    if call.caller is None and AGENT_RUN.get() is None and call.state_key.startswith(AGENT_KEYS):
        raise ToolError(_ELSEWHERE, code="agent_unavailable")
    return call


def _clean_preferences(given: Sequence[Any] | None, agent: PlannedAgent) -> list[dict[str, Any]]:
    """Return only providers and models. A model may have written them, so other configuration is from the settings."""
    cleaned = []
    for one in given or ():
        wanted = {key: one.get(key) if isinstance(one, Mapping) else getattr(one, key, None) for key in _PREFERENCE}
        same = [own for own in agent.provider_preferences if all(own.get(key) == wanted[key] for key in _PREFERENCE)]
        cleaned.append({**wanted, "config": same[0].get("config") if same else None})
    return cleaned
