"""The policies `allow` and `deny`: which tools, resources and prompts which principals can use.

A call that matches a `deny` item is denied, whatever else matches. If there are `allow` items, a call that matches none
of them is denied too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import PrivateAttr

from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Policy, Stage
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import CallPolicy, is_built_in


class AccessPolicy(CallPolicy):
    """The base of `allow` and `deny`. All items of one of them in the settings become one policy with several rules.

    Attributes:
        denies: Whether calls that match a rule are denied, or those that match none.
    """

    checks_calls = True
    stage = Stage.ADMIT
    is_passive = True
    may_ask = False
    denies: ClassVar[bool]

    _further_rules: tuple[CallPolicy, ...] = PrivateAttr(default=())

    def combine(self, other: Policy) -> Policy | None:
        """Return the policy with the rules of both."""
        policy = self.model_copy()
        if isinstance(other, AccessPolicy):
            policy._further_rules = (*self._further_rules, other)
        return policy

    def select_rules(self, entry: Any) -> list[CallPolicy]:
        """Return the rules that match some calls of an entry."""
        return [rule for rule in (self, *self._further_rules) if rule.applies_to_entry(entry)]

    async def check_call(
        self, rules: Sequence[CallPolicy], call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Run the call if it is not denied. Raises Denied."""
        reason = self._find_reason(rules, call, ctx)
        if reason is not None:
            ctx.record_decision(PolicyDecision(self.name, "denied", reason=reason))
            raise Denied(f"{call.kind.capitalize()} '{call.name}' was denied: {reason}. Do not retry this call.")
        return await call_next(call, ctx)

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the call is denied."""
        reason = self._find_reason(self.select_rules(entry), call, ctx)
        if reason is None:
            return Forecast("passes")
        return Forecast("stops", reason)

    def _find_reason(self, rules: Sequence[CallPolicy], call: ToolCall, ctx: RunningCall) -> str | None:
        matches = any(rule.applies_to_call(call, ctx) for rule in rules)
        if matches != self.denies:
            return None
        caller = f"the principal '{ctx.principal}'" if ctx.principal else "this caller"
        verb = "deny it" if self.denies else "do not allow it"
        return f"the settings of this server {verb} for {caller}"


class AllowPolicy(AccessPolicy):
    """Allow the calls that match. If there is any `allow`, calls that match none of them are denied."""

    name = "allow"
    permits = True
    denies = False

    def bind(self, entry: Any) -> Layer | None:
        """Return no layer for entries that every caller may use, and for the tools of the server itself."""
        if is_built_in(entry):
            return None
        rules = self.select_rules(entry)
        if any(not rule.principals and rule.decides_for(entry) for rule in rules):
            return None
        return partial(self.check_call, rules)


class DenyPolicy(AccessPolicy):
    """Deny the calls that match, even if an `allow` matches too."""

    name = "deny"
    denies = True

    def bind(self, entry: Any) -> Layer | None:
        """Return no layer for entries that no rule matches."""
        rules = self.select_rules(entry)
        if not rules:
            return None
        return partial(self.check_call, rules)
