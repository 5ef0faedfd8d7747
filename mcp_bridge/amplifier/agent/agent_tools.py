"""The tools and hooks of a session as its orchestrator sees them.

Every tool call of an agent is a call of its own in the pipeline, so validation, limits, approvals and other policies
apply to it, and so do the session's hooks. What an orchestrator emits about tools is therefore not emitted again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import quote

from mcp_bridge.amplifier import events
from mcp_bridge.amplifier.models import HookResult, ToolResult
from mcp_bridge.amplifier.results import render_content
from mcp_bridge.amplifier.source.sessions import AGENT_KEYS
from mcp_bridge.contracts import tool as contracts
from mcp_bridge.contracts.content import InjectedText
from mcp_bridge.contracts.context import CallContext, NestedContext

_EMITTED_BY_PIPELINE = frozenset({events.TOOL_PRE, events.TOOL_POST, events.TOOL_ERROR})
_COUNTED = ("input_tokens", "output_tokens", "total_tokens")


class AgentContext(NestedContext):
    """The call of an agent: its nested calls belong to the session of the agent instead of that of the client."""

    __slots__ = ()

    def __init__(self, outer: CallContext, handle: str) -> None:
        super().__init__(outer, outer.request_id)
        self.session = f"{AGENT_KEYS}{quote(outer.principal or '', safe='')}/{handle}"

    @property
    def state_key(self) -> str:
        return self.session

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        """Keep the texts from the client's model: they are in results that the agent's model reads."""


class AgentTool:
    """A tool of the session, in the form of the Tool contract."""

    def __init__(
        self, entry: contracts.ToolEntry, ctx: CallContext, on_start: Callable[[str], Awaitable[object]]
    ) -> None:
        self.name = entry.name
        self.description = entry.description
        self.input_schema = entry.input_schema
        self._entry = entry
        self._ctx = ctx
        self._on_start = on_start

    def get_schema(self) -> dict[str, Any]:
        return self.input_schema

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run the tool through the pipeline. Never raises: what stops the call is in the result."""
        await self._on_start(self.name)
        result = await self._ctx.invoke_entry(self._entry, input)
        output = result.output if result.content is None else render_content(result.content)
        if not result.is_error:
            return ToolResult(output=output)
        error = {"message": result.error_text, "type": result.code or "tool_error"}
        return ToolResult(success=False, output=output, error=error)


class AgentHooks:
    """The hooks of a session, as an orchestrator emits to them.

    Attributes:
        usage: The tokens of all responses of models.
        status: What the orchestrator reported last about the execution; empty if it does not report.
    """

    def __init__(self, hooks: Any, on_text: Callable[[str], Awaitable[object]]) -> None:
        self._hooks = hooks
        self._on_text = on_text
        self.usage = dict.fromkeys(_COUNTED, 0)
        self.status = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> Any:
        """Emit an event, except those of tools, which the pipeline emits."""
        if event in _EMITTED_BY_PIPELINE:
            return HookResult()
        given = data or {}
        if event == events.PROVIDER_RESPONSE:
            self._count_usage(given.get("usage"))
        elif event == events.ORCHESTRATOR_COMPLETE:
            self.status = str(given.get("status", ""))
        elif event == events.CONTENT_BLOCK_DELTA and isinstance(delta := given.get("delta"), str):
            await self._on_text(delta)
        return await self._hooks.emit(event, given)

    def _count_usage(self, usage: Any) -> None:
        for name in _COUNTED:
            count = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
            self.usage[name] += count if isinstance(count, int) else 0
