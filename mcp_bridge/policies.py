"""Everything for a policy of your own. docs/policies.md has an example."""

from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Policy, Stage
from mcp_bridge._contracts.running_call import PolicyDecision
from mcp_bridge._policies.base import CallPolicy, PolicyServices, ToolPolicy

__all__ = [
    "CallNext",
    "CallPolicy",
    "Forecast",
    "Layer",
    "Policy",
    "PolicyDecision",
    "PolicyServices",
    "Stage",
    "ToolPolicy",
]
