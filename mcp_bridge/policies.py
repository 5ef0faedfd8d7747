"""What a policy of your own is made of. docs/policies.md has an example."""

from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.policy import Forecast, ForecastingLayer, Policy, PolicyLayer, PolicyOptions, RunningPolicy
from mcp_bridge._contracts.running_call import PolicyDecision
from mcp_bridge._policies.selection import SelectionOptions, ToolSelectionOptions
from mcp_bridge._policies.services import PolicyServices

__all__ = [
    "CallNext",
    "Forecast",
    "ForecastingLayer",
    "Policy",
    "PolicyDecision",
    "PolicyLayer",
    "PolicyOptions",
    "PolicyServices",
    "RunningPolicy",
    "SelectionOptions",
    "Stage",
    "ToolSelectionOptions",
]
