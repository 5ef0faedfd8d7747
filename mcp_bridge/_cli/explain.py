"""`explain`: shows the layers and the steps of a call, without running the tool or asking the user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import ExplainOptions
from mcp_bridge._cli.output import print_lines, show_table, write_json
from mcp_bridge._cli.schema_values import CallArguments
from mcp_bridge._cli.server_address import split_target
from mcp_bridge._cli.target import load_and_start
from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.handlers import PlannedCall, PlanningHandler
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._engine.explanation import CallExplanation, ExplainedLayer, explain_call
from mcp_bridge._engine.registry import ToolRegistry, make_not_found_error
from mcp_bridge._engine.tool_use.chain_tool import ChainTool


def explain_tool_call(options: ExplainOptions) -> None:
    """Print the layers of a call. Exit with 1 if one would stop it. Raises ConfigError and ToolNotFound."""
    logs.configure_logging(options.log_level)
    target, name, words = split_target(options.words, options.file, "tool")
    arguments = CallArguments.read_words(options.arguments, words)
    with logs.delay_start_errors():
        bridge = load_and_start(target)
        explanation, steps = anyio.run(_explain, bridge, name, arguments, options.principal)
    outcome = explanation.outcome
    if options.as_json:
        write_json(
            {
                "tool": name,
                "principal": options.principal,
                "outcome": outcome,
                "layers": [layer._asdict() for layer in explanation.layers],
                "unused_policies": explanation.unused_policies,
                "steps": [step._asdict() for step in steps],
            }
        )
    else:
        _print_explanation(name, explanation, steps)
    exit_with(ok=outcome != "stops")


async def _explain(
    bridge: Bridge, name: str, arguments: CallArguments, principal: str | None
) -> tuple[CallExplanation, Sequence[PlannedCall]]:
    """Explain a call, and list the steps of a chain or a command if the arguments are given."""
    entry = bridge.registry.get(name)
    if entry is None:
        raise make_not_found_error(name, bridge.registry.list_names())
    data: Any = None
    if arguments.data is not None or arguments.pairs:
        data = arguments.parse_pairs(entry.input_schema)
    explanation = await _explain_entry(bridge.registry, entry, data, RunningCall(principal=principal))
    handler: Any = entry.handler
    steps: Sequence[PlannedCall] = []
    if data is not None and explanation.outcome != "stops" and isinstance(handler, PlanningHandler):
        try:
            steps = handler.plan_call(data)
        except InvalidArguments as error:
            # Only the tool itself checks paths, so its own layer, the last one, stops the call.
            explanation.layers[-1] = explanation.layers[-1]._replace(outcome="stops", reason=error.text)
    return explanation, steps


async def _explain_entry(registry: ToolRegistry, entry: ToolEntry, data: Any, ctx: RunningCall) -> CallExplanation:
    """Explain a call, and if the tool is a chain, its steps. `data` is None if the arguments are unknown."""
    prepared = registry.get_prepared(entry.name)
    assert prepared is not None
    arguments = {} if data is None else data
    call = ToolCall(id="cli", name=entry.name, arguments=arguments)
    explanation = await explain_call(registry.pipeline, prepared, call, ctx, has_arguments=data is not None)
    if not isinstance(entry.handler, ChainTool) or entry.handler.list_problems():
        return explanation
    is_stopped = explanation.outcome == "stops"
    for number, step in enumerate(entry.handler.steps, 1):
        layer = ExplainedLayer(f"step {number}: {step.tool_name}", "not reached")
        tool = registry.get(step.tool_name)
        if not is_stopped and tool is not None:
            nested = await _explain_entry(registry, tool, None, ctx)
            outcome, reason = nested.outcome, ""
            if nested.decisive is not None:
                reason = f"{nested.decisive.layer}: {nested.decisive.reason}"
            if outcome == "stops" and step.continue_on_failure:
                outcome, reason = "passes", f"the chain continues without it: {reason}"
            layer = layer._replace(outcome=outcome, reason=reason)
            is_stopped = outcome == "stops"
        explanation.layers.append(layer)
    return explanation


def _print_explanation(name: str, explanation: CallExplanation, steps: Sequence[PlannedCall]) -> None:
    show_table(("layer", "outcome", "reason"), explanation.layers)
    if explanation.unused_policies:
        print_lines("", f"These policies do nothing for '{name}': {', '.join(explanation.unused_policies)}.")
    if steps:
        print_lines("", f"'{name}' would run:")
        for number, step in enumerate(steps, 1):
            print_lines(f"  {number}. {step.action} {json.dumps(step.arguments, ensure_ascii=False, default=str)}")
    decisive = explanation.decisive
    if decisive is None:
        print_lines("", f"The call to '{name}' would run.")
    elif decisive.outcome == "stops":
        print_lines("", f"The call to '{name}' would be stopped by: {decisive.layer}.")
    else:
        print_lines("", f"The call to '{name}' would run if the user allows it.")
