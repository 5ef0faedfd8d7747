"""Reports calls to an observer, such as the history of the web page, with the time of each layer on request."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from mcp_bridge._contracts.observation import LayerTime, ObservedCall
from mcp_bridge._contracts.policy import CallNext, Layer
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.prepared import compose_layer, get_step_name, run_nothing


class CallObserver(Protocol):
    """Observes the calls of a pipeline. It must be fast, because every call waits for it."""

    def begin_call(self, call: ToolCall, ctx: RunningCall) -> ObservedCall:
        """Start the observation of a call. The result receives the end of the call."""


def observe_calls(
    observer: CallObserver, layers: Sequence[Layer], policies: Mapping[int, str], composed: CallNext
) -> CallNext:
    """Return a function to report the start of a call and run it through `composed`, the composition of `layers`.

    `policies` has the names of policies by the ids of their layers. The outermost layer, `_map_errors`, reports the end
    of the call, because another coroutine around it would cost more than the record of the call.
    """
    begin_call = observer.begin_call
    named_layers = [(policies.get(id(layer)) or _name_step(layer), layer) for layer in layers]

    def run_observed(call: ToolCall, ctx: RunningCall) -> Awaitable[ToolResult]:
        observation = begin_call(call, ctx)
        ctx.observation = observation
        if observation.layers is None:
            return composed(call, ctx)
        return _compose_timed(named_layers, observation.layers)(call, ctx)

    return cast("CallNext", run_observed)


def _compose_timed(layers: Sequence[tuple[str, Layer]], times: list[LayerTime]) -> CallNext:
    """Compose the layers for one call. Each records its time, with that of the layers inside it, in the list `times`.

    The list has to be empty.
    """
    times += [LayerTime(name) for name, _ in layers]
    call_next: CallNext = run_nothing
    for (_, layer), layer_time in zip(reversed(layers), reversed(times), strict=True):
        call_next = compose_layer(partial(_run_timed, layer, layer_time), call_next)
    return call_next


async def _run_timed(
    layer: Layer, layer_time: LayerTime, call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> ToolResult:
    layer_time.is_entered = True
    start = time.perf_counter()
    try:
        return await layer(call, ctx, call_next)
    finally:
        # A layer runs several times if one around it repeats the call, as `retry` does.
        layer_time.seconds = (layer_time.seconds or 0.0) + time.perf_counter() - start


def _name_step(layer: Any) -> str:
    """Return the words of a step of the pipeline, such as `limit time`."""
    name = get_step_name(layer)
    if name == "_recheck_output":
        # The layer is `partial(_recheck_output, tool, policy_name)`.
        _, policy_name = layer.args
        return f"recheck {policy_name}"
    return name.strip("_").replace("_", " ")
