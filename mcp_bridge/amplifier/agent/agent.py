"""The tool that runs the agent of a plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from mcp_bridge.amplifier.agent.agent_tools import AgentContext, AgentHooks, AgentTool
from mcp_bridge.amplifier.agent.running_call import AGENT_CALL
from mcp_bridge.amplifier.session import ModuleSession
from mcp_bridge.amplifier.source.sessions import ModuleSessions
from mcp_bridge.contracts.content import Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ToolError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.runtime.third_party import describe_error, is_own_cancellation

_SHOWN = 200
"""The last characters of a growing response that a progress notification has."""
_FAILED = frozenset({"error", "incomplete", "denied", "cancelled"})
"""What an orchestrator reports about an execution without a final response."""
_INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "minLength": 1, "description": "What the agent has to do, with all it must know."},
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How the agent is published. Without a description, it says which tools the agent has."""

    name: str = "run_agent"
    description: str = ""


class Agent:
    """Runs the orchestrator of a plan.

    Each conversation has a session of the modules for itself, with a context of its own. Its name is unguessable, and
    belongs to the principal that began it. Executions of one conversation run one after another.

    Attributes:
        tools: The tools that the agent has, which run in the session of the conversation.
    """

    def __init__(self, sessions: ModuleSessions, options: AgentOptions) -> None:
        self._sessions = sessions
        self._options = options
        self.tools: Sequence[ToolEntry] = ()
        self._locks: WeakKeyDictionary[ModuleSession, anyio.Lock] = WeakKeyDictionary()

    def find_problem(self, session: ModuleSession) -> str:
        """Return why the plan has no agent that could run, or an empty text."""
        get = session.coordinator.get
        if get("orchestrator") is None:
            return "its orchestrator is not mounted"
        if get("context") is None:
            return "no context is mounted. Add `context: context-simple` to the session of the plan"
        if not get("providers"):
            return "no provider is mounted. Add one to `providers`, and check that its API key is set"
        return ""

    def build_entry(self, tools: Sequence[ToolEntry]) -> ToolEntry:
        """Return the tool that runs an agent with these tools, under a name that none of them has."""
        name, names = self._options.name, sorted(entry.name for entry in tools)
        while name in names:
            name += "_agent"
        listed = ", ".join(names)
        purpose = self._options.description or "Give a task to an agent, which works on it by itself and reports back."
        description = purpose if self._options.description or not names else f"{purpose} Its tools: {listed}."
        return ToolEntry(name, description, self.run, _INPUT_SCHEMA, _OUTPUT_SCHEMA)

    async def run(self, data: dict[str, Any], ctx: CallContext) -> ToolResult:
        """Run a task. Raises ToolError, Overloaded and ToolUnavailable; a run that stops early is a failed result."""
        handle = data.get("session") or token_urlsafe(16)
        agent_ctx = AgentContext(ctx, handle)
        if data.get("session") and not self._sessions.has_session(agent_ctx):
            message = "There is no such conversation, or it has ended. Omit 'session' to begin a new one."
            raise ToolError(message, code="session_not_found")
        async with self._sessions.lease(agent_ctx) as session, self._locks.setdefault(session, anyio.Lock()):
            execution = _AgentExecution(session, agent_ctx, self.tools)
            with _bind_call(agent_ctx):
                text = await execution.run(data["task"], data.get("provider"))
        output = {"text": text, "session": handle, "usage": execution.hooks.usage}
        note = f"[To continue this conversation, call this tool with session={handle!r}.]"
        if execution.hooks.status in _FAILED:
            return ToolResult(success=False, error={"message": text, "code": "agent_stopped"}, content=[Text(note)])
        return ToolResult(output=output, content=[Text(text), Text(note)])


class _AgentExecution:
    """One execution of the orchestrator of a session."""

    def __init__(self, session: ModuleSession, ctx: CallContext, entries: Sequence[ToolEntry]) -> None:
        self._coordinator = session.coordinator
        self._ctx = ctx
        self._steps = 0
        self._text = ""
        self.hooks = AgentHooks(session.hooks, self._report_text)
        self._tools = {entry.name: AgentTool(entry, ctx, self._report_tool) for entry in entries}

    async def run(self, task: str, provider: str | None) -> str:
        """Return the response. Raises ToolError for an unknown provider, and if the orchestrator raises."""
        providers = dict(self._coordinator.get("providers"))
        if provider is not None and provider not in providers:
            raise ToolError(f"There is no provider '{provider}'. Mounted are: {', '.join(providers)}.")
        if provider is not None:  # orchestrators take the first one by default
            providers = {provider: providers.pop(provider)}
        execute: Callable[..., Awaitable[Any]] = self._coordinator.get("orchestrator").execute
        try:
            response = await execute(
                prompt=task,
                context=self._coordinator.get("context"),
                providers=providers,
                tools=self._tools,
                hooks=self.hooks,
                coordinator=self._coordinator,
            )
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            raise ToolError(f"The agent failed: {describe_error(error)}", code="agent_failed") from error
        return str(response)

    async def _report_tool(self, name: str) -> None:
        self._text = ""
        await self._report(f"The agent runs the tool '{name}'.")

    async def _report_text(self, delta: str) -> None:
        self._text = (self._text + delta)[-_SHOWN:]
        await self._report(self._text)

    async def _report(self, message: str) -> None:
        self._steps += 1
        await self._ctx.progress(self._steps, message=message)


@contextmanager
def _bind_call(ctx: CallContext) -> Iterator[None]:
    token = AGENT_CALL.set(ctx)
    try:
        yield
    finally:
        AGENT_CALL.reset(token)
