"""`explain`: which layers a call would pass, and which would stop it, without running the tool or asking anyone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.cli import logs
from mcp_bridge.cli.exits import ExitCode
from mcp_bridge.cli.output import print_lines, show_table, write_json
from mcp_bridge.cli.policy_options import ExplainOptions
from mcp_bridge.cli.schema_values import parse_pairs, read_arguments
from mcp_bridge.cli.server_address import split_target
from mcp_bridge.cli.target import load_target, run_until_started
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.pipeline.explanation import CallExplanation, explain_call
from mcp_bridge.registry.registry import make_not_found_error


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
    registry = bridge.registry
    prepared, entry = registry.get_prepared(name), registry.get(name)
    if prepared is None or entry is None:
        raise make_not_found_error(name, registry.list_names())
    has_arguments = arguments is not None or bool(pairs)
    data = arguments if arguments is not None else parse_pairs(pairs, entry.input_schema) if pairs else {}
    call, ctx = ToolCall(id="cli", name=name, arguments=data), CallContext(principal=principal)
    return await explain_call(registry.pipeline, prepared, call, ctx, has_arguments=has_arguments)


def _print_explanation(name: str, explanation: CallExplanation) -> None:
    show_table(("layer", "outcome", "reason"), explanation.layers)
    if explanation.unused_policies:
        print_lines("", f"These policies do nothing for '{name}': {', '.join(explanation.unused_policies)}.")
    decisive = explanation.decisive
    if decisive is None:
        print_lines("", f"The call of '{name}' would run.")
    elif decisive.outcome == "stops":
        print_lines("", f"The call of '{name}' would be stopped by: {decisive.layer}.")
    else:
        print_lines("", f"The call of '{name}' would run if the user allows it.")
