"""The tool that runs the agent of a plan.

A run can take long, and it may wait for the model, for tools and for the user. Its state decides what it keeps:

- While it runs, it keeps its turn in the conversation and its places in limiters, and its deadlines pass. Other runs of
  the same conversation wait, because they share its context.
- While it waits for the client's model (sampling), it keeps the same, because this is a part of the agent's work.
- While it waits for the user (a question, an approval), it is suspended: its places are free, and its deadlines and its
  turn are paused. Another run of the conversation fails immediately, because the user may never answer.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from secrets import token_urlsafe
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._integrations.amplifier.agent.agent_tools import AgentCall, AgentHooks, AgentTool
from mcp_bridge._integrations.amplifier.interfaces import ResumableContext
from mcp_bridge._integrations.amplifier.loops.loop import AgentLoop
from mcp_bridge._integrations.amplifier.message_models import describe_unfinished
from mcp_bridge._integrations.amplifier.running_call import AGENT_CALL, AGENT_RUN, AgentRun, BoundCall, bind_value
from mcp_bridge._integrations.amplifier.session import ModuleSession
from mcp_bridge._integrations.amplifier.sessions.client_session import get_session_id
from mcp_bridge._integrations.amplifier.sessions.module_sessions import ModuleSessions
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge._protocol.wire.values import to_plain_text
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation

AGENT_TOOL = "run_agent"
"""The name of the agent's tool in its source. The settings change it like any other, with `alias` and `overrides`."""
_SHOWN = 200
"""How many characters of a growing response, from its end, a progress notification shows."""
FAILED = frozenset({"error", "incomplete", "denied", "cancelled"})
"""The states of an execution without a final response, as orchestrators report them."""
_ENDED = (
    "There is no such conversation, or it has ended because it was idle or there were too many. Omit 'session' to "
    "begin a new one, and repeat what the agent must know."
)
_UNMOUNTED = (
    "The agent cannot run in this conversation, because one of its modules is not mounted; the server's log says why. "
    "Omit 'session' to begin a new one."
)
_WAITING = (
    "The conversation waits for the user's answer to a question of an earlier call. Retry when that call has ended, or "
    "omit 'session' to begin a new conversation."
)
_INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "minLength": 1, "description": "What the agent should do, with all it must know."},
        "session": {
            "type": "string",
            "description": "Continue an earlier conversation with the agent: the `session` of its result.",
        },
        "provider": {"type": "string", "description": "The name of the model provider to use."},
    },
    "required": ["task"],
    "additionalProperties": False,
}
_COUNT = {"type": "integer", "minimum": 0}
_OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The agent's response."},
        "session": {"type": "string", "description": "Pass it to continue this conversation."},
        "usage": {
            "type": "object",
            "properties": {"input_tokens": _COUNT, "output_tokens": _COUNT, "total_tokens": _COUNT},
            "description": "The tokens that the agent's model has used for this task.",
        },
    },
    "required": ["text", "session", "usage"],
}


class Agent:
    """Runs the orchestrator of a plan.

    Each conversation has its own session of the modules, with its own context. Its handle cannot be guessed, and only
    the principal of its first call can use it. Executions of one conversation run one after another (see `TurnQueue`).

    Attributes:
        tools: The tools of the agent, as they are published. They run in the session of the conversation.
        name: The name of the agent's tool in its source.
        published_name: The name of this tool for clients and policies.
    """

    def __init__(self, sessions: ModuleSessions, approvals: ApprovalGate) -> None:
        self._sessions = sessions
        self._approvals = approvals
        self.name = self.published_name = AGENT_TOOL
        self.tools: Sequence[ToolEntry] = ()
        self._turns: WeakKeyDictionary[ModuleSession, TurnQueue] = WeakKeyDictionary()

    def find_problem(self, session: ModuleSession) -> str:
        """Return why the agent of the plan cannot run, or an empty string."""
        coordinator = session.coordinator
        orchestrator = coordinator.get("orchestrator")
        providers = coordinator.get("providers")
        if orchestrator is None:
            return "its orchestrator is not mounted"
        if coordinator.get("context") is None:
            return "no context is mounted. Add `context: context-simple` to the session of the plan"
        if not providers:
            return "no provider is mounted. Add one to `providers`, and check that its API key is set"
        if isinstance(orchestrator, AgentLoop):
            return orchestrator.describe_missing_price(providers)
        return ""

    def build_entry(self, mounted_tools: Sequence[ToolEntry], agent_tools: Sequence[ToolEntry]) -> ToolEntry:
        """Return the tool for an agent with these tools. Its name differs from those of mounted tools."""
        names = {entry.name for entry in mounted_tools}
        name = AGENT_TOOL
        while name in names:
            name += "_agent"
        self.name = name
        description = "Give a task to an agent, which works on it by itself and reports back."
        tools = ", ".join(sorted(entry.name_in_source for entry in agent_tools))
        if tools:
            description += f" Its tools: {tools}."
        return ToolEntry(name, description, self.run, _INPUT_SCHEMA, _OUTPUT_SCHEMA, affinity="session")

    async def run(self, data: dict[str, Any], ctx: RunningCall) -> ToolResult:
        """Run a task. Raises ToolError, Overloaded and ToolUnavailable; an early end is a failed result."""
        handle = data.get("session") or token_urlsafe(16)
        agent_ctx = AgentCall(ctx, handle)
        is_new = not data.get("session")
        if not is_new and not await self._has_conversation(agent_ctx):
            raise ToolError(_ENDED, code="session_not_found")
        call = ToolCall(id=ctx.request_id, name=self.published_name, arguments=data)
        try:
            async with self._sessions.lease(agent_ctx) as session:
                if self.find_problem(session):
                    raise ToolError(_UNMOUNTED, code="agent_unavailable")
                text, hooks = await self.run_orchestrator(
                    session, agent_ctx, self.tools, data["task"], data.get("provider"), call=call
                )
        except BaseException:
            # The caller has not received the handle of a new conversation, so nothing can continue it.
            if is_new:
                self._sessions.end_session(agent_ctx.state_key)
            raise
        output = {"text": text, "session": handle, "usage": hooks.usage}
        note = f"[To continue this conversation, call this tool with session={handle!r}.]"
        if hooks.denial or hooks.status in FAILED:
            error = hooks.denial or text
            return ToolResult(success=False, output=output, error=error, code="agent_stopped", content=[Text(note)])
        return ToolResult(output=output, content=[Text(text), Text(note)])

    async def run_orchestrator(
        self,
        session: ModuleSession,
        ctx: AgentCall,
        tools: Sequence[ToolEntry],
        task: str,
        provider: str | None = None,
        *,
        call: ToolCall,
        name: str = "",
    ) -> tuple[str, AgentHooks]:
        """Run the orchestrator of a leased session. Return its response, and its hooks with the recorded events.

        The questions of hooks are about `call`. `name` is the name of a subagent. Raises ToolError as `run` does.
        """
        async with self._turns.setdefault(session, TurnQueue()).take_turn(ctx):
            execution = _AgentExecution(session, ctx, tools, self._approvals, name)
            with bind_value(AGENT_CALL, ctx), bind_value(AGENT_RUN, execution), BoundCall(call, ctx):
                return await execution.run(to_plain_text(task), provider), execution.hooks

    async def _has_conversation(self, ctx: RunningCall) -> bool:
        """Return whether the conversation has a session, or was stored by the context of an earlier process."""
        if self._sessions.has_session(ctx.state_key):
            return True
        first = self._sessions.first
        context = first.session.coordinator.get("context") if first is not None else None
        return isinstance(context, ResumableContext) and await context.has_history(get_session_id(ctx.state_key))


class _AgentExecution(AgentRun):
    """One execution of the orchestrator of a session."""

    def __init__(
        self, session: ModuleSession, ctx: RunningCall, entries: Sequence[ToolEntry], approvals: ApprovalGate, name: str
    ) -> None:
        super().__init__(ctx, name)
        self._coordinator = session.coordinator
        self._text = ""
        self._response: Any = None
        outer_hooks: AgentHooks | None = self.outer.hooks if isinstance(self.outer, _AgentExecution) else None
        self.hooks: AgentHooks = AgentHooks(session.coordinator, self._report_text, approvals, outer_hooks)
        self._tools = {entry.name_in_source: AgentTool(entry, ctx, self._report_tool) for entry in entries}

    async def run(self, task: str, provider: str | None) -> str:
        """Return the response. Raises ToolError for an unknown provider, and if the orchestrator raises."""
        providers = dict(self._coordinator.get("providers"))
        execute: Callable[..., Awaitable[Any]] = self._coordinator.get("orchestrator").execute
        options = {}
        if provider is not None:
            if provider not in providers:
                names = ", ".join(providers)
                raise ToolError(f"There is no provider '{provider}'. The mounted providers are: {names}.")
            # Orchestrators use the first provider, unless their settings name a default or they accept an argument.
            providers = {provider: providers[provider]}
            if _accepts_provider(execute):
                options = {"provider": provider}
        for name, module in providers.items():
            providers[name] = CountedProvider(module, self._add_response)
        prompt = await self.hooks.submit_prompt(task)
        if self.hooks.denial:
            return self.hooks.denial
        try:
            response = await execute(
                prompt=prompt,
                context=self._coordinator.get("context"),
                providers=providers,
                tools=self._tools,
                hooks=self.hooks,
                coordinator=self._coordinator,
                **options,
            )
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            raise ToolError(f"The agent failed: {describe_error(error)}", code="agent_failed") from error
        return self._check_end(str(response))

    def _check_end(self, text: str) -> str:
        """Return the text of a run. The run has failed if its last response was truncated, refused or empty."""
        problem = describe_unfinished(self._response) if self._response is not None else ""
        has_reported_failure = bool(text) and self.hooks.status in FAILED
        if not problem or has_reported_failure:
            return text
        self.hooks.status = "incomplete"
        return f"{text}\n\n[Stopped early. {problem}]".lstrip()

    def _add_response(self, response: Any) -> None:
        self._response = response
        self.hooks.add_usage(getattr(response, "usage", None))

    async def _report_tool(self, name: str) -> None:
        self._text = ""
        await self.report(f"The agent runs the tool '{name}'.")

    async def _report_text(self, delta: str) -> None:
        self._text = (self._text + delta)[-_SHOWN:]
        await self.report(self._text)


class TurnQueue:
    """Runs the executions of one conversation one after another.

    The queue is a `Hold` of the running execution, so it is paused while that execution waits for its user. Other
    executions then fail instead of waiting: the user may never answer, or may be the next caller.
    """

    # A hold has a deadline. That of a queue never passes.
    deadline = math.inf

    def __init__(self) -> None:
        self._is_taken = self._is_paused = False
        self._changed = anyio.Event()

    @asynccontextmanager
    async def take_turn(self, ctx: RunningCall) -> AsyncIterator[None]:
        """Wait for the turn of this call, and keep it for the block. Raises ToolError if the wait could be endless."""
        while self._is_taken:
            if self._is_paused:
                raise ToolError(_WAITING, code="session_busy")
            await self._changed.wait()
        self._is_taken = True
        ctx.holds.append(self)
        try:
            yield
        finally:
            ctx.holds.remove(self)
            self._is_taken = self._is_paused = False
            self._notify()

    def pause(self) -> None:
        self._is_paused = True
        self._notify()

    def resume(self) -> None:
        self._is_paused = False

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class CountedProvider:
    """Wraps a provider, and passes on each response to `add_response`, because not every orchestrator reports them."""

    def __init__(self, provider: Any, add_response: Callable[[Any], None]) -> None:
        self._provider = provider
        self._add_response = add_response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    @property
    def complete(self) -> Callable[..., Awaitable[Any]]:
        """The `complete` of the provider. It keeps its signature, because orchestrators look for `on_text` in it."""
        complete = self._provider.complete

        @wraps(complete)
        async def complete_and_report(*args: Any, **kwargs: Any) -> Any:
            response = await complete(*args, **kwargs)
            self._add_response(response)
            return response

        return complete_and_report


def _accepts_provider(execute: Callable[..., Any]) -> bool:
    """Return whether an orchestrator accepts the name of a provider in place of its default."""
    try:
        parameters = get_signature(execute).parameters.values()
    except (TypeError, ValueError):
        # Code that is not written in Python may have no signature.
        return False
    return any(parameter.name == "provider" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
