"""`explain`: which layers a call would pass, and which would stop it, without running the tool or asking anyone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import ExplainOptions
from mcp_bridge._cli.output import print_lines, show_table, write_json
from mcp_bridge._cli.schema_values import parse_pairs, read_arguments
from mcp_bridge._cli.server_address import split_target
from mcp_bridge._cli.target import load_target, run_until_started
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._engine.explanation import CallExplanation, ExplainedLayer, explain_call
from mcp_bridge._engine.registry import ToolRegistry, make_not_found_error
from mcp_bridge._engine.tool_use.chain_tool import ChainTool


def explain_tool_call(options: ExplainOptions) -> None:
    """Print the layers of a call; exit with 1 if one would stop it. Raises ConfigError and ToolNotFound."""
    logs.configure_logging(options.log_level)
    target, name, pairs = split_target(options.words, options.file, "tool")
    data, pairs = read_arguments(options.arguments, pairs)
    bridge = load_target(Path(target) if target is not None else None).bridge
    with logs.hold_start_errors():
        explanation = anyio.run(_explain, bridge, name, pairs, data, options.principal)
    decisive = explanation.decisive
    outcome = decisive.outcome if decisive is not None else "passes"
    if options.as_json:
        layers = [each._asdict() for each in explanation.layers]
        caller = {"tool": name, "principal": options.principal}
        write_json({**caller, "outcome": outcome, "layers": layers, "unused_policies": explanation.unused_policies})
    else:
        _print_explanation(name, explanation)
    raise SystemExit(ExitCode.FAILED if outcome == "stops" else ExitCode.OK)


async def _explain(
    bridge: Bridge, name: str, pairs: Sequence[str], arguments: Any, principal: str | None
) -> CallExplanation:
    await run_until_started(bridge)
    entry = bridge.registry.get(name)
    if entry is None:
        raise make_not_found_error(name, bridge.registry.list_names())
    data = arguments if arguments is not None else parse_pairs(pairs, entry.input_schema) if pairs else None
    return await _explain_entry(bridge.registry, entry, data, RunningCall(principal=principal))


async def _explain_entry(registry: ToolRegistry, entry: ToolEntry, data: Any, ctx: RunningCall) -> CallExplanation:
    """Explain a call, and if the tool is a chain, its steps. `data` is None if the arguments are unknown."""
    prepared, arguments = registry.get_prepared(entry.name), {} if data is None else data
    assert prepared is not None
    call = ToolCall(id="cli", name=entry.name, arguments=arguments)
    explanation = await explain_call(registry.pipeline, prepared, call, ctx, has_arguments=data is not None)
    if not isinstance(entry.handler, ChainTool) or entry.handler.list_problems():
        return explanation
    decisive = explanation.decisive
    is_stopped = decisive is not None and decisive.outcome == "stops"
    for number, step in enumerate(entry.handler.steps, 1):
        layer = ExplainedLayer(f"step {number}: {step.tool_name}", "not reached")
        if not is_stopped and (tool := registry.get(step.tool_name)) is not None:
            found = (await _explain_entry(registry, tool, None, ctx)).decisive
            outcome = found.outcome if found is not None else "passes"
            reason = f"{found.layer}: {found.reason}" if found is not None else ""
            if outcome == "stops" and step.continue_on_failure:
                outcome, reason = "passes", f"the chain continues without it: {reason}"
            layer = layer._replace(outcome=outcome, reason=reason)
            is_stopped = outcome == "stops"
        explanation.layers.append(layer)
    return explanation


def _print_explanation(name: str, explanation: CallExplanation) -> None:
    show_table(("layer", "outcome", "reason"), explanation.layers)
    if explanation.unused_policies:
        print_lines("", f"These policies do nothing for '{name}': {', '.join(explanation.unused_policies)}.")
    decisive = explanation.decisive
    if decisive is None:
        print_lines("", f"The call to '{name}' would run.")
    elif decisive.outcome == "stops":
        print_lines("", f"The call to '{name}' would be stopped by: {decisive.layer}.")
    else:
        print_lines("", f"The call to '{name}' would run if the user allows it.")
