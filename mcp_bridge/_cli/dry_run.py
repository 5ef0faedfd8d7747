"""`call --dry-run`: what a call of a chain or a command would run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.output import print_lines, report, write_json
from mcp_bridge._cli.schema_values import parse_pairs
from mcp_bridge._cli.target import load_target, run_sources
from mcp_bridge._contracts.errors import ConfigError, InvalidArguments
from mcp_bridge._contracts.handlers import PlannedCall, PlanningHandler
from mcp_bridge._engine.registry import make_not_found_error
from mcp_bridge._json_schema.validator import validate
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio


def show_plan(
    target: str | None, name: str, pairs: Sequence[str], arguments: Any, *, as_json: bool, is_remote: bool
) -> None:
    """Print the steps of a call, one on each line, or as JSON. Raises ConfigError and ToolNotFound."""
    if is_remote:
        hint = "Pass a file instead of the server"
        raise ConfigError("only a bridge in this process can show what a call would run", where="--dry-run", hint=hint)
    with reserve_stdio():  # stdout is only for the result
        bridge = load_target(Path(target) if target is not None else None).bridge
        try:
            with logs.hold_start_errors() as release:
                planned = anyio.run(_plan_call, bridge, name, pairs, arguments, release)
        except InvalidArguments as error:
            report(error.text)
            raise SystemExit(ExitCode.FAILED) from None
    if as_json:
        write_json({"steps": [{"action": step.action, "arguments": step.arguments} for step in planned]})
        return
    for number, step in enumerate(planned, 1):
        print_lines(f"{number}. {step.action} {json.dumps(step.arguments, ensure_ascii=False, default=str)}")


async def _plan_call(
    bridge: Bridge, name: str, pairs: Sequence[str], arguments: Any, ready: Any
) -> Sequence[PlannedCall]:
    async with run_sources(bridge, serving=False):
        await bridge.wait_until_started()
        ready()
        if name not in bridge.registry:
            await bridge.wait_until_connected()
        entry = bridge.registry.get(name)
        if entry is None:
            raise make_not_found_error(name, bridge.registry.list_names())
        handler: Any = entry.handler
        if not isinstance(handler, PlanningHandler):
            hint = "Leave out --dry-run to call it"
            raise ConfigError(f"'{name}' is neither a chain nor a command", where="--dry-run", hint=hint)
        data = arguments if arguments is not None else parse_pairs(pairs, entry.input_schema)
        if problems := validate(data, entry.input_schema).errors:
            raise InvalidArguments(problems, tool=name)
        return handler.plan_call(data)
