"""The policy `read_only`: only tools that declare `readOnlyHint: true` run."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.policy import Forecast, Policy, PolicyLayer
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._policies.selection import READ_ONLY, ToolSelectionOptions, has_hint, is_built_in
from mcp_bridge._policies.services import PolicyServices

_REASON = "this server runs only tools with the annotation readOnlyHint: true, and this one does not declare it"


class ReadOnlyOptions(ToolSelectionOptions):
    """Deny calls to tools that do not declare `readOnlyHint: true`."""

    def build_policy(self, services: PolicyServices) -> Policy:
        """Build the policy."""
        return ReadOnlyPolicy(self)


class ReadOnlyPolicy:
    """Denies calls to tools that may change something. Resources and prompts are not affected: they are only read."""

    name = "read_only"
    stage = Stage.ADMIT
    is_passive = True
    may_ask = False

    def __init__(self, options: ReadOnlyOptions) -> None:
        self._options = options

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return no layer for tools that declare that they are read-only."""
        applies = isinstance(entry, ToolEntry) and self._options.applies_to_tool(entry)
        is_exempt = has_hint(entry, READ_ONLY) or (isinstance(entry, ToolEntry) and is_built_in(entry))
        return ReadOnlyLayer(self._options) if applies and not is_exempt else None


class ReadOnlyLayer:
    """Denies every call to a tool, or those of some principals."""

    name = "read_only"

    def __init__(self, options: ReadOnlyOptions) -> None:
        self._options = options

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Raises Denied."""
        if self._options.applies_to_principal(ctx):
            ctx.record_decision(PolicyDecision(self.name, "denied", reason=_REASON))
            raise Denied(f"Tool '{call.name}' was denied: {_REASON}. Use a tool that only reads.")
        return await call_next(call, ctx)

    async def predict(self, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the call is denied."""
        return Forecast("stops", _REASON) if self._options.applies_to_principal(ctx) else Forecast("passes")
