"""Predicts what a call would meet on its way through the pipeline, without running anything.

`mcp-bridge explain` shows the result: the layers in order, the predicted outcome of each, and the decisive one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.prepared import PreparedEntry, get_step_name

Outcome = Literal["passes", "stops", "asks", "unknown", "not reached"]
_STEP_NAMES: Mapping[str, str] = {
    "_validate_input": "validate arguments",
    "_limit_calls": "limit concurrent calls",
    "_limit_time": "limit time",
    "_validate_output": "validate output",
    "_run_handler": "run the tool",
}
"""What users call the pipeline's own layers, by the names of their functions.

Layers that only serve other layers, such as `_provide_checks`, are missing here and left out of explanations.
"""


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
        for decisive_outcome in ("stops", "asks"):
            for layer in self.layers:
                if layer.outcome == decisive_outcome:
                    return layer
        return None

    @property
    def outcome(self) -> Outcome:
        """The outcome of the call: that of the decisive layer, or `passes`."""
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
        name = policy.name if policy is not None else _STEP_NAMES.get(get_step_name(layer))
        if name is None:
            continue
        if is_stopped:
            layers.append(ExplainedLayer(name, "not reached"))
            continue
        if policy is not None:
            forecast = await policy.predict(tool.entry, call, ctx)
            # A policy may change the arguments for the layers within it.
            call = forecast.call or call
            layers.append(ExplainedLayer(name, forecast.outcome, forecast.reason))
        else:
            layers.append(_explain_layer(name, layer, call, has_arguments=has_arguments))
        is_stopped = layers[-1].outcome == "stops"
    bound_ids = [id(policy) for policy in policies.values()]
    unused_policies = [policy.name for policy in pipeline.policies if id(policy) not in bound_ids]
    return CallExplanation(layers, unused_policies)


def _explain_layer(name: str, layer: Any, call: ToolCall, *, has_arguments: bool) -> ExplainedLayer:
    """Predict the outcome of one of the pipeline's own layers, of which only the validation can stop a call."""
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
