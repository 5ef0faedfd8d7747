"""The policy `approval`: the user decides whether a tool call runs. The gate that asks is also that of hooks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PrivateAttr

from mcp_bridge._contracts.errors import ApprovalDeclined
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._policies.base import PolicyServices, ToolPolicy, is_built_in


class RequiredApproval(ToolPolicy):
    """Ask the user before calls that match. [Approvals](approvals.md) explains who is asked."""

    checks_calls = True
    name = "approval"
    stage = Stage.DECIDE
    is_passive = True

    question: str = Field(
        default="Allow the tool '{tool}' to run?",
        min_length=1,
        description="The question, in which `{tool}` is the name of the tool. The arguments are added to it.",
    )
    default: Literal["allow", "deny"] = Field(
        default="deny", description="What applies if no user can be asked, or none answers in time."
    )

    _gate: ApprovalGate = PrivateAttr()

    @property
    def asking(self) -> ApprovalGate:
        """The gate that asks the user."""
        return self._gate

    def use_services(self, services: PolicyServices) -> None:
        self._gate = ApprovalGate()

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for tools that match."""
        if is_built_in(entry) or not self.applies_to_entry(entry):
            return None
        return self._require_approval

    async def _require_approval(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Run the call if the user approves it. Raises ApprovalDeclined."""
        if self.applies_to_call(call, ctx):
            decision = await self._gate.resolve_question(self._build_question(call), ctx)
            # If a hook changes the arguments after this, the call is denied unless the user is asked again.
            ctx.approved_call = call
            if not decision.is_allowed:
                reason = decision.reason or "The user declined it. Ask the user how to continue."
                raise ApprovalDeclined(f"Tool '{call.name}' was not approved. {reason}")
        return await call_next(call, ctx)

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the user would be asked; a remembered decision passes."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        decision = await self._gate.find_decision(self._build_question(call), ctx)
        if decision is not None:
            return Forecast("passes", "the user has allowed this call earlier")
        return Forecast("asks", f"without an answer, the default is: {self.default}")

    def _build_question(self, call: ToolCall) -> ApprovalQuestion:
        return ApprovalQuestion(
            tool=call.name,
            arguments=call.arguments,
            prompt=self.question.replace("{tool}", call.name),
            default=self.default,
        )
