"""The services through which modules ask the user for approval and show messages. Both belong to the running call.

Modules ask in one of two ways:

- A module such as hooks-approval registers the capability `approval.register_provider`, receives an ApprovalProvider
  through it, and awaits `request_approval` in its hook.
- Orchestrators pass the decisions of hooks to `coordinator.process_hook_result`, which uses the approval system and the
  display system of the coordinator.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Literal

from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._integrations.amplifier.hook_decisions import build_question
from mcp_bridge._integrations.amplifier.hooks import pause_handler_clock
from mcp_bridge._integrations.amplifier.interfaces import ApprovalRequest, ApprovalResponse
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.running_call import RUNNING_CALL
from mcp_bridge._policies.approvals.decisions import ApprovalDecision
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._runtime.third_party import is_own_cancellation

logger = logging.getLogger("mcp_bridge.approvals")

REGISTER_CAPABILITY = "approval.register_provider"
# The question gets this share of the timeout of the request, so that it ends before the module stops waiting.
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
        question = ApprovalQuestion(
            tool=call.name,
            arguments=call.arguments,
            about=details,
            details=details,
            prompt=f"{request.action}?{risk}",
            timeout=timeout,
            kind=call.kind,
        )
        # If the module stops waiting for the answer, the code below is cancelled, and the question stays in the list.
        if running is not None:
            running.unanswered = [*running.unanswered, question]
        with pause_handler_clock():
            decision = await self._gate.resolve_question(question, ctx)
        if running is not None and decision.how != "timeout":
            running.unanswered = [other for other in running.unanswered if other is not question]
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
        prompt = f"Allow '{running.call.name}' to continue ({event})?"
        question = build_question(running.call, decision, prompt=prompt, about=event)
        try:
            return await self._gate.resolve_question(question, running.ctx)
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

    Modules register the capability if they need a provider. If a module has a provider to offer, it looks the
    capability up, and calls it with its provider. Such a module gets `return_provider`, because the bridge asks by
    itself.
    """
    provider = BridgeApprovalProvider(gate)

    def return_provider(_: Any = None) -> BridgeApprovalProvider:
        logger.warning("a module offers to ask for approvals; the bridge asks by itself")
        return provider

    def give_provider(receiver: Any) -> None:
        if receiver is not return_provider:
            _give_provider(receiver, provider)

    coordinator.on_capability(REGISTER_CAPABILITY, give_provider)
    if coordinator.get_capability(REGISTER_CAPABILITY) is None:
        coordinator.register_capability(REGISTER_CAPABILITY, return_provider)


def _give_provider(receiver: Any, provider: BridgeApprovalProvider) -> None:
    """Call a module's receiver with the provider. A failure allows nothing, because modules without a provider deny."""
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
