"""The policy `read_only`: only tools that declare `readOnlyHint: true` run."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import READ_ONLY, ToolPolicy, has_hint, is_built_in

_REASON = "this server runs only tools with the annotation readOnlyHint: true, and this one does not declare it"


class ReadOnlyPolicy(ToolPolicy):
    """Deny calls to tools that do not declare `readOnlyHint: true`."""

    checks_calls = True
    name = "read_only"
    stage = Stage.ADMIT
    is_passive = True
    may_ask = False

    def bind(self, entry: Any) -> Layer | None:
        """Return no layer for tools that are declared read-only, and for resources and prompts."""
        if has_hint(entry, READ_ONLY) or is_built_in(entry) or not self.applies_to_entry(entry):
            return None
        return self.deny_call

    async def deny_call(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Deny a call that matches. Raises Denied."""
        if self.applies_to_call(call, ctx):
            ctx.record_decision(PolicyDecision(self.name, "denied", reason=_REASON))
            raise Denied(f"Tool '{call.name}' was denied: {_REASON}. Use a tool that only reads.")
        return await call_next(call, ctx)

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the call is denied."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        return Forecast("stops", _REASON)
