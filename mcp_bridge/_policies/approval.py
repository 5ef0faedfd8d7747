"""The policy `approval`: the user decides whether a tool call runs, as with the approvals of hooks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.policy import Forecast, Policy, PolicyLayer
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._policies.selection import ToolSelectionOptions, is_built_in
from mcp_bridge._policies.services import PolicyServices
from mcp_bridge._settings.values import Duration


class ApprovalOptions(ToolSelectionOptions):
    """Ask the user before calls that match. [Approvals](approvals.md) explains who is asked."""

    question: str = Field(
        default="Allow the tool '{tool}' to run?",
        min_length=1,
        description="The question, in which `{tool}` is the name of the tool. The arguments are added to it.",
    )
    timeout: Duration | None = Field(
        default=None, description="How long the user may take to answer. Default: `state.ttl`."
    )
    default: Literal["allow", "deny"] = Field(
        default="deny", description="What applies if no user can be asked, or none answers in time."
    )

    def build_policy(self, services: PolicyServices) -> Policy:
        """Build the policy."""
        return RequiredApproval(self)


class RequiredApproval:
    """Asks the user before calls. `asking` is the gate, whose policy the bridge sets."""

    name = "approval"
    stage = Stage.DECIDE
    is_passive = True
    may_ask = True

    def __init__(self, options: ApprovalOptions) -> None:
        self.asking = ApprovalGate()
        self._options = options

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return a layer for tools that match."""
        applies = isinstance(entry, ToolEntry) and self._options.applies_to_tool(entry) and not is_built_in(entry)
        return ApprovalLayer(self.asking, self._options) if applies else None


class ApprovalLayer:
    """Asks the user before each call to one tool."""

    name = "approval"

    def __init__(self, gate: ApprovalGate, options: ApprovalOptions) -> None:
        self._gate = gate
        self._options = options

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Raises ApprovalDeclined."""
        if self._options.applies_to_principal(ctx):
            decision = await self._gate.resolve_question(self._build_question(call), ctx)
            ctx.approved_call = call
            if not decision.is_allowed:
                reason = decision.reason or "The user declined it. Ask the user how to continue."
                raise ApprovalDeclined(f"Tool '{call.name}' was not approved. {reason}")
        return await call_next(call, ctx)

    async def predict(self, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the user would be asked; a remembered decision passes."""
        if not self._options.applies_to_principal(ctx):
            return Forecast("passes")
        decision = await self._gate.find_decision(self._build_question(call), ctx)
        if decision is not None:
            return Forecast("passes", "the user has allowed this call earlier")
        return Forecast("asks", f"without an answer, the default is: {self._options.default}")

    def _build_question(self, call: ToolCall) -> ApprovalQuestion:
        return ApprovalQuestion(
            tool=call.name,
            arguments=call.arguments,
            prompt=self._options.question.replace("{tool}", call.name),
            timeout=self._options.timeout,
            default=self._options.default,
        )
