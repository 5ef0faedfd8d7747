"""Modules that ask for approval by themselves: they are given a provider that ends at the same person as all else.

As hooks-approval does, such a module registers the capability `approval.register_provider`, is given an
ApprovalProvider by it, and awaits `request_approval` in its hook.
"""

from __future__ import annotations

import inspect
import json
import logging
from typing import Any

from mcp_bridge.amplifier.governance.approval import Asking, Case
from mcp_bridge.amplifier.hooks import unhurried
from mcp_bridge.amplifier.interfaces import ApprovalRequest, ApprovalResponse
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.runtime.third_party import passes

logger = logging.getLogger("mcp_bridge.approvals")

CAPABILITY = "approval.register_provider"
DETAILS = 2000
"""The most characters of a request's details in a question."""
_SOONER = 0.9
"""The share of a request's time after which it is over here, so that it is before the module itself gives it up."""
_WHY = {
    "default": "A person has to allow this, and nobody could be asked.",
    "timeout": "A person has to allow this, and nobody answered in time.",
    "remembered": "A person has allowed this before.",
    "elicitation": "A person at the client {} this.",
    "terminal": "A person at a terminal {} this.",
}


class Provider:
    """An `ApprovalProvider` that asks whoever is to be asked about the call whose hooks run."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """What a person says, or has said before; a denial where nobody can be asked.

        The request may be of another package. Raises TimeoutError when nobody answers in time.
        """
        call, ctx = self._asking.running() or (None, CallContext())
        details = request.details or (call.arguments if call is not None else {})
        timeout = request.timeout
        case = Case(
            tool=call.name if call is not None else str(request.tool_name),
            arguments=call.arguments if call is not None else details,
            about=details,
            prompt=_prompt(request, details),
            timeout=timeout * _SOONER if timeout is not None else None,
            kind=call.kind if call is not None else "tool",
        )
        with unhurried():
            decision = await self._asking.settle(case, ctx)
        if decision.how == "timeout":
            raise TimeoutError(_WHY["timeout"])
        reason = _WHY[decision.how].format("allowed" if decision.allowed else "declined")
        return ApprovalResponse(approved=decision.allowed, reason=reason, remember=decision.scope == "always")


def register(coordinator: Any, asking: Asking) -> None:
    """Give our provider to every module that asks for one, now and later; on a coordinator that cannot tell, now.

    A module that finds the capability before another has registered it offers itself as a provider: it is told ours.
    """
    provider = Provider(asking)

    def offer(taker: Any) -> None:
        if taker is not ours:
            _give(taker, provider)

    def ours(_: Any = None) -> Provider:
        logger.warning("a module offers to ask for approvals; the bridge asks by itself")
        return provider

    on_capability = getattr(coordinator, "on_capability", None)
    if on_capability is None:
        if (taker := coordinator.get_capability(CAPABILITY)) is not None:
            offer(taker)
        return
    on_capability(CAPABILITY, offer)
    if coordinator.get_capability(CAPABILITY) is None:
        coordinator.register_capability(CAPABILITY, ours)


def _give(taker: Any, provider: Provider) -> None:
    """Without a provider such a module denies, so what goes wrong here lets nothing pass."""
    try:
        answer = taker(provider)
    except BaseException as error:
        if passes(error):
            raise
        logger.exception("a module that asks for approvals did not take a provider")
        return
    if inspect.iscoroutine(answer):
        answer.close()
        logger.error("a module that asks for approvals takes its provider in a coroutine, which is not awaited")


def _prompt(request: ApprovalRequest, details: Any) -> str:
    """The request as a person reads it."""
    shown = json.dumps(details, ensure_ascii=False, default=repr) if details else ""
    cut = shown if len(shown) <= DETAILS else f"{shown[:DETAILS]} … and {len(shown) - DETAILS} more characters"
    risk = f" (risk: {request.risk_level})" if request.risk_level else ""
    return "\n".join(filter(None, [f"{request.action}?{risk}", cut]))
