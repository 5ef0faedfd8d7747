"""How modules ask the user for approval and show messages. Both belong to the running call.

A module such as hooks-approval registers the capability `approval.register_provider`, receives an ApprovalProvider
through it, and awaits `request_approval` in its hook. Orchestrators pass decisions of hooks to
`coordinator.process_hook_result`, which uses the approval system and the display system of the coordinator.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Literal

from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._integrations.amplifier.hooks import pause_handler_clock
from mcp_bridge._integrations.amplifier.interfaces import ApprovalRequest, ApprovalResponse
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.running_call import RUNNING_CALL
from mcp_bridge._policies.approvals.decisions import ApprovalDecision
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._runtime.third_party import is_own_cancellation

logger = logging.getLogger("mcp_bridge.approvals")

REGISTER_CAPABILITY = "approval.register_provider"
# The question takes a share of the request's timeout, so that it ends before the module times out.
_TIMEOUT_SHARE = 0.9
_REASONS = {
    "default": "This call needs a user's approval.",
    "remembered": "A user allowed this earlier.",
    "elicitation": "The user at the client {} this.",
    "terminal": "A user at a terminal {} this.",
    "page": "A user on the page {} this.",
}


class BridgeApprovalProvider:
    """An `ApprovalProvider` for questions about the call of the running hooks."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the decision of the user, now or earlier; a denial if no user can be asked. Raises TimeoutError.

        The request may be of another package's class.
        """
        running = RUNNING_CALL.get()
        if running is not None:
            call, ctx = running.call, running.ctx
        else:
            # A module may ask outside of a call, for example while it mounts.
            call, ctx = ToolCall(id="", name=str(request.tool_name), arguments=request.details), RunningCall()
        details = request.details or call.arguments
        timeout = request.timeout * _TIMEOUT_SHARE if request.timeout is not None else None
        risk = f" (risk: {request.risk_level})" if request.risk_level else ""
        case = ApprovalQuestion(
            tool=call.name,
            arguments=call.arguments,
            about=details,
            details=details,
            prompt=f"{request.action}?{risk}",
            timeout=timeout,
            kind=call.kind,
        )
        # The question counts as unanswered even if the module stops waiting.
        if running is not None:
            running.unanswered = [*running.unanswered, case]
        with pause_handler_clock():
            decision = await self._gate.resolve_question(case, ctx)
        if running is not None and decision.how != "timeout":
            running.unanswered = [question for question in running.unanswered if question is not case]
        if decision.how == "timeout":
            raise TimeoutError(decision.reason)
        reason = _REASONS[decision.how].format("allowed" if decision.is_allowed else "declined")
        reason = f"{reason} {decision.reason}".rstrip()
        return ApprovalResponse(approved=decision.is_allowed, reason=reason, remember=decision.scope == "always")


class BridgeApprovalSystem:
    """An `ApprovalSystem` for questions about the call of the running agent."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return `Allow` or `Deny`."""
        decision = HookResult(
            action="ask_user",
            approval_prompt=prompt,
            approval_options=options,
            approval_timeout=timeout,
            approval_default=default,
        )
        return "Allow" if (await self.approve_event(decision, "")).is_allowed else "Deny"

    async def approve_event(self, decision: HookResult, event: str) -> ApprovalDecision:
        """Return the decision. It is remembered for the same event of a call with the same arguments.

        Outside of a call, and if the server is at capacity, it is a denial.
        """
        running = RUNNING_CALL.get()
        if running is None:
            reason = "This needs the user's approval, but there is no running call through which to ask."
            return ApprovalDecision(scope="deny", how="default", reason=reason)
        call = running.call
        case = ApprovalQuestion(
            tool=call.name,
            arguments=call.arguments,
            prompt=decision.approval_prompt or f"Allow '{call.name}' to continue ({event})?",
            options=tuple(decision.approval_options) if decision.approval_options else None,
            timeout=decision.approval_timeout,
            default=decision.approval_default,
            about=event,
            kind=call.kind,
        )
        try:
            return await self._gate.resolve_question(case, running.ctx)
        except CallError as error:
            return ApprovalDecision(scope="deny", how="default", reason=error.message)


class BridgeDisplaySystem:
    """A `DisplaySystem` for messages of hooks, in the log of the client of the running call."""

    async def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str) -> None:
        """Show a message; outside of a call, it goes to the log of the server."""
        running = RUNNING_CALL.get()
        if running is not None:
            await running.ctx.log(level, message, source)
        else:
            logger.info("%s: %s", source, message)


def register_approval_provider(coordinator: Any, gate: ApprovalGate) -> None:
    """Give the bridge's provider to every module with this capability, now and later.

    If a module finds the capability before another has registered it, it offers itself as a provider. It receives the
    bridge's instead. A coordinator without `on_capability` is read once.
    """
    provider = BridgeApprovalProvider(gate)

    def offer(receiver: Any) -> None:
        if receiver is not return_provider:
            _give_provider(receiver, provider)

    def return_provider(_: Any = None) -> BridgeApprovalProvider:
        logger.warning("a module offers to ask for approvals; the bridge asks by itself")
        return provider

    on_capability = getattr(coordinator, "on_capability", None)
    if on_capability is None:
        receiver = coordinator.get_capability(REGISTER_CAPABILITY)
        if receiver is not None:
            offer(receiver)
        return
    on_capability(REGISTER_CAPABILITY, offer)
    if coordinator.get_capability(REGISTER_CAPABILITY) is None:
        coordinator.register_capability(REGISTER_CAPABILITY, return_provider)


def _give_provider(receiver: Any, provider: BridgeApprovalProvider) -> None:
    """A module without a provider denies, so a failure here allows nothing."""
    try:
        result = receiver(provider)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        logger.exception("a module that asks for approvals raised when it received its provider")
        return
    if inspect.iscoroutine(result):
        result.close()
        logger.error("a module that asks for approvals receives its provider in a coroutine, which is not awaited")
