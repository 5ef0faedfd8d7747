"""The policies `allow` and `deny`: which tools, resources and prompts which principals can use.

A call that matches a `deny` item is denied, whatever else matches. If there are `allow` items, a call that matches none
of them is denied too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.policy import Forecast, Policy, PolicyLayer
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._policies.selection import SelectionOptions, is_built_in
from mcp_bridge._policies.services import PolicyServices


class AllowOptions(SelectionOptions):
    """Allow the calls that match. If there is any `allow`, calls that match none of them are denied."""

    permits = True

    def build_policy(self, services: PolicyServices) -> Policy:
        """Build the policy."""
        return AllowPolicy([self])


class DenyOptions(SelectionOptions):
    """Deny the calls that match, even if an `allow` matches too."""

    def build_policy(self, services: PolicyServices) -> Policy:
        """Build the policy."""
        return DenyPolicy([self])


class AccessPolicy:
    """The base of both policies. `rules` are the options of all items of the policy."""

    name = ""
    stage = Stage.ADMIT
    is_passive = True
    may_ask = False

    def __init__(self, rules: Sequence[SelectionOptions]) -> None:
        self.rules = tuple(rules)


class AllowPolicy(AccessPolicy):
    """Denies all calls except those that match a rule."""

    name = "allow"

    def combine(self, other: AllowPolicy) -> Policy:
        """Return the policy with the rules of both."""
        return AllowPolicy((*self.rules, *other.rules))

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return no layer for entries that every caller may use, and for the tools of the server itself."""
        if isinstance(entry, ToolEntry) and is_built_in(entry):
            return None
        rules = [rule for rule in self.rules if rule.applies_to_entry(entry)]
        is_allowed = any(not rule.principals and rule.decides_for(entry) for rule in rules)
        return None if is_allowed else AccessLayer(rules, denies=False)


class DenyPolicy(AccessPolicy):
    """Denies calls that match a rule."""

    name = "deny"

    def combine(self, other: DenyPolicy) -> Policy:
        """Return the policy with the rules of both."""
        return DenyPolicy((*self.rules, *other.rules))

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return no layer for entries that no rule matches."""
        rules = [rule for rule in self.rules if rule.applies_to_entry(entry)]
        return AccessLayer(rules, denies=True) if rules else None


class AccessLayer:
    """Denies the calls that match a rule, or those that match none."""

    def __init__(self, rules: Sequence[SelectionOptions], *, denies: bool) -> None:
        self.name = "deny" if denies else "allow"
        self._rules = rules
        self._denies = denies

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Raises Denied."""
        if (reason := self._find_reason(call, ctx)) is not None:
            ctx.record_decision(PolicyDecision(self.name, "denied", reason=reason))
            raise Denied(f"{call.kind.capitalize()} '{call.name}' was denied: {reason}. Do not retry this call.")
        return await call_next(call, ctx)

    async def predict(self, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict whether the call is denied."""
        reason = self._find_reason(call, ctx)
        return Forecast("passes") if reason is None else Forecast("stops", reason)

    def _find_reason(self, call: ToolCall, ctx: RunningCall) -> str | None:
        matches = any(rule.applies_to_call(call) and rule.applies_to_principal(ctx) for rule in self._rules)
        if matches != self._denies:
            return None
        caller = f"the principal '{ctx.principal}'" if ctx.principal else "this caller"
        verb = "deny it" if self._denies else "do not allow it"
        return f"the settings of this server {verb} for {caller}"
