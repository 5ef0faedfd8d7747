"""Predicts the way of a call through the pipeline: its layers in order, and the decisive one. Nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.prepared import PreparedEntry, get_step_name

Outcome = Literal["passes", "stops", "asks", "unknown", "not reached"]
_NAMES: Mapping[str, str] = {
    "_validate_input": "validate arguments",
    "_limit_calls": "limit concurrent calls",
    "_limit_time": "limit time",
    "_validate_output": "validate output",
    "_run_handler": "run the tool",
}
"""The layers of the pipeline itself by their functions. Layers that only serve other layers are left out."""


class ExplainedLayer(NamedTuple):
    """A layer, and the prediction of its outcome."""

    layer: str
    outcome: Outcome
    reason: str = ""


class CallExplanation(NamedTuple):
    """The layers of a call, outermost first, and the policies without effect on its tool."""

    layers: list[ExplainedLayer]
    unused_policies: list[str]

    @property
    def decisive(self) -> ExplainedLayer | None:
        """The layer that would stop the call, else the first one that would ask the user; None if it would run."""
        by_outcome = {layer.outcome: layer for layer in reversed(self.layers)}
        return by_outcome.get("stops") or by_outcome.get("asks")

    @property
    def outcome(self) -> Outcome:
        """What becomes of the call: the outcome of the decisive layer, or `passes`."""
        return self.decisive.outcome if self.decisive is not None else "passes"


async def explain_call(
    pipeline: Pipeline, tool: PreparedEntry, call: ToolCall, ctx: RunningCall, *, has_arguments: bool = True
) -> CallExplanation:
    """Predict the outcome of each layer. Without arguments, their validation is left out."""
    layers: list[ExplainedLayer] = []
    is_stopped = False
    policies = {id(layer): policy for policy, layer in pipeline.bind_policies(tool)}
    for layer in pipeline.layers(tool):
        policy = policies.get(id(layer))
        name = policy.name if policy is not None else _NAMES.get(get_step_name(layer))
        if name is None:
            continue
        if is_stopped:
            layers.append(ExplainedLayer(name, "not reached"))
            continue
        if policy is not None:
            forecast = await policy.predict(tool.entry, call, ctx)
            call = forecast.call or call
            layers.append(ExplainedLayer(name, forecast.outcome, forecast.reason))
        else:
            layers.append(_explain_layer(name, layer, call, has_arguments=has_arguments))
        is_stopped = layers[-1].outcome == "stops"
    bound_ids = [id(policy) for policy in policies.values()]
    return CallExplanation(layers, [policy.name for policy in pipeline.policies if id(policy) not in bound_ids])


def _explain_layer(name: str, layer: Any, call: ToolCall, *, has_arguments: bool) -> ExplainedLayer:
    function = get_step_name(layer)
    if function == "_validate_input":
        tool, limits = layer.args
        if not has_arguments:
            return ExplainedLayer(name, "passes", "not checked, because no arguments are given")
        try:
            tool.check_input(call, limits)
        except InvalidArguments as error:
            return ExplainedLayer(name, "stops", "; ".join(error.details))
    if function == "_limit_time":
        return ExplainedLayer(name, "passes", f"{layer.args[0]:g} seconds")
    return ExplainedLayer(name, "passes")
