"""Replaces the tools and hooks of a session for its orchestrator.

Every tool call of an agent is a nested call in the pipeline, so validation, limits, approvals and other policies apply
to it. The pipeline also emits the events of tools to the session's hooks. Orchestrators emit the same events, too, and
`AgentHooks` ignores them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_bridge._contracts import tool as contracts
from mcp_bridge._contracts.content import InjectedText
from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.running_call import NestedCall, RunningCall
from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.events import DECISIVE_EVENTS
from mcp_bridge._integrations.amplifier.hook_decisions import get_injections
from mcp_bridge._integrations.amplifier.models import HookResult, ToolResult
from mcp_bridge._integrations.amplifier.results import list_images, render_content
from mcp_bridge._integrations.amplifier.running_call import RUNNING_CALL, BoundCall, bind_value
from mcp_bridge._integrations.amplifier.sessions.client_session import AGENT_KEYS
from mcp_bridge._policies.approvals.gate import ApprovalGate

if TYPE_CHECKING:
    from mcp_bridge._contracts.question import Question

_EMITTED_BY_PIPELINE = frozenset({events.TOOL_PRE, events.TOOL_POST, events.TOOL_ERROR})
_COUNTED = ("input_tokens", "output_tokens", "total_tokens")
_ASKS_MODEL: ContextVar[bool] = ContextVar("asks_model", default=False)
"""Whether the current questions are for the client's model, not for the user."""


class AgentCall(NestedCall):
    """The call of an agent: its nested calls belong to the session of the agent, not to that of the client."""

    __slots__ = ("_handle",)

    def __init__(self, outer: RunningCall, handle: str) -> None:
        super().__init__(outer, outer.request_id)
        self._handle = handle
        # Logs contain the session, so it must not reveal the handle.
        handle_hash = hashlib.sha256(handle.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.session = f"{AGENT_KEYS}{quote(outer.principal or '', safe='')}/{handle_hash}"

    @property
    def state_key(self) -> str:
        return self.session

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask the client. The deadlines of this agent and its parents pause for questions to the user only."""
        from mcp_bridge._contracts.question import Sampling

        with bind_value(_ASKS_MODEL, all(isinstance(question, Sampling) for question in questions.values())):
            return await super().put(questions)

    @contextmanager
    def release_holds(self) -> Iterator[None]:
        """Release the holds of this call and its outer calls.

        While the call waits for the client's model, its own holds stay, because the model's work is the agent's work.
        """
        if _ASKS_MODEL.get():
            released_holds = self._outer.release_holds()
        else:
            released_holds = super().release_holds()
        with released_holds:
            yield

    async def invoke_entry(
        self, entry: contracts.ToolEntry, arguments: Any = None, known_as: str = ""
    ) -> contracts.ToolResult:
        """Call a tool of the agent through the pipeline. Even for a worker, it is in the bridge's process."""
        if self.caller is not None:
            return await super().invoke_entry(entry, arguments, known_as)
        # Without a caller, this is a worker. Its outer call asks the bridge, which has the handler run here.
        bound_entry = replace(entry, handler=self._bind_handler(entry.handler))
        return await self._outer.invoke_entry(bound_entry, arguments)

    def _bind_handler(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler for the session of the agent. The bridge knows only the session of the client."""

        async def run_async(data: Any, ctx: RunningCall) -> Any:
            return await handler(data, AgentCall(ctx, self._handle))

        def run_in_thread(data: Any, ctx: RunningCall) -> Any:
            return handler(data, AgentCall(ctx, self._handle))

        return run_async if is_async(handler) else run_in_thread

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        """Do nothing: the agent's model reads the texts in the results of its tools, so the client's need not."""


class AgentTool:
    """A tool of the session as it is published, in the form of the Tool contract.

    It keeps the name in its module, because other modules, instructions and hooks of the plan use it.
    """

    def __init__(
        self, entry: contracts.ToolEntry, ctx: RunningCall, on_start: Callable[[str], Awaitable[object]]
    ) -> None:
        self.name = entry.name_in_source
        self.description = entry.description
        self.input_schema = entry.input_schema
        self._entry = entry
        self._ctx = ctx
        self._on_start = on_start

    def get_schema(self) -> dict[str, Any]:
        return self.input_schema

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run the tool through the pipeline. Never raises: the result has the error."""
        await self._on_start(self.name)
        result = await self._ctx.invoke_entry(self._entry, input, known_as=self.name)
        output = result.output if result.content is None else render_content(result.content)
        images = list_images(result.content) or None
        if not result.is_error:
            return ToolResult(output=output, content=images)
        error = {"message": result.error_text, "type": result.code or "tool_error"}
        return ToolResult(success=False, output=output, error=error, content=images)


class AgentHooks:
    """Receives the events of an orchestrator, and emits them to the hooks of the session, except those of tools.

    It also records usage, status and denials for the caller. `outer` are the hooks of the parent agent.

    Attributes:
        usage: The tokens of all responses of models, including those of subagents.
        status: The last reported state of the execution; empty if the orchestrator reports none.
        turns: The reported number of requests to the model.
        denial: The text about the first denial of one of DECISIVE_EVENTS; empty if there was none.
    """

    def __init__(
        self,
        coordinator: Any,
        on_text: Callable[[str], Awaitable[object]],
        approvals: ApprovalGate,
        outer: AgentHooks | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._hooks = coordinator.hooks
        self._on_text = on_text
        self._approvals = approvals
        self._outer = outer
        self.turns = 0
        self.usage = dict.fromkeys(_COUNTED, 0)
        self.status = self.denial = ""
        self._has_deltas = False
        self._submitted: tuple[str, HookResult] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> Any:
        """Emit an event, except those of tools, because the pipeline emits them."""
        if event in _EMITTED_BY_PIPELINE:
            return HookResult()
        data = data or {}
        if event == events.PROMPT_SUBMIT and self._submitted is not None:
            prompt, decision = self._submitted
            # `submit_prompt` has emitted this event already.
            if data.get("prompt") == prompt:
                self._submitted = None
                return decision
        if event == events.ORCHESTRATOR_COMPLETE:
            self.status = str(data.get("status", ""))
            self.turns = data.get("turn_count") or 0
        elif event == events.CONTENT_BLOCK_DELTA and isinstance(data.get("delta"), str):
            self._has_deltas = True
            await self._on_text(data["delta"])
        elif event == events.CONTENT_BLOCK_END and not self._has_deltas:
            # The text was not streamed, so report it as a whole.
            block = data.get("block")
            if isinstance(block, dict) and block.get("type") == "text" and block.get("text"):
                await self._on_text(str(block["text"]))
        elif event == events.PROVIDER_REQUEST:
            self._has_deltas = False
        decision = await self._emit_bound(event, data)
        # Orchestrators apply decisions themselves, but some do not ask the user, or ignore a decision about their end.
        if decision.action == "ask_user" or event == events.ORCHESTRATOR_COMPLETE:
            decision = await self._apply_decision(decision, event)
        self._record_denial(decision, event)
        return decision

    async def submit_prompt(self, prompt: str) -> str:
        """Let hooks decide about a prompt before the orchestrator starts. Return the prompt with their changes.

        Amplifier's orchestrators emit this event, too, but add the original prompt to the context. The changes would be
        lost.
        """
        decision = await self._emit_bound(events.PROMPT_SUBMIT, {"prompt": prompt})
        decision = await self._apply_decision(decision, events.PROMPT_SUBMIT)
        self._record_denial(decision, events.PROMPT_SUBMIT)
        prompt = str((decision.data or {}).get("prompt", prompt))
        self._submitted = (prompt, decision)
        return prompt

    def _record_denial(self, decision: Any, event: str) -> None:
        if decision.action == "deny" and event in DECISIVE_EVENTS and not self.denial:
            self.denial = f"{DECISIVE_EVENTS[event]} was denied: {decision.reason or 'a policy denies it'}"

    async def _emit_bound(self, event: str, data: dict[str, Any]) -> Any:
        """Emit an event, and return the decision.

        If a hook has not waited for the user's answer, and the user has declined since, the event is denied.
        """
        running = RUNNING_CALL.get()
        if running is None:
            return await self._hooks.emit(event, data)
        bound = BoundCall(running.call, running.ctx)
        with bound:
            decision = await self._hooks.emit(event, data)
        for question in bound.unanswered:
            late_decision = await self._approvals.find_late_decision(question, running.ctx)
            if late_decision is not None and not late_decision.is_allowed:
                return HookResult(action="deny", data=decision.data, reason="The user declined.")
        return decision

    async def _apply_decision(self, decision: Any, event: str) -> HookResult:
        """Apply a decision, and return the rest for the orchestrator: a denial, or ephemeral injections.

        The other injections are in the history then, and `inject_context` makes the orchestrator read it again.
        """
        outcome = await self._coordinator.process_hook_result(decision, event, "agent")
        if outcome.action == "deny":
            return HookResult(action="deny", data=outcome.data, reason=outcome.reason)
        injections = get_injections(decision)
        ephemeral_injections = [injection for injection in injections if injection.ephemeral]
        text = "\n\n".join(injection.content for injection in ephemeral_injections)
        return HookResult(
            action="inject_context" if injections else "continue",
            data=outcome.data,
            context_injection=text or None,
            ephemeral=True,
            context_injections=ephemeral_injections,
        )

    def add_usage(self, usage: Any) -> None:
        """Add the tokens of one response."""
        if self._outer is not None:
            self._outer.add_usage(usage)
        for name in _COUNTED:
            count = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
            if isinstance(count, int):
                self.usage[name] += count
