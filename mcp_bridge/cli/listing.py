"""`list`, `validate` and `schema`: what would be served, without serving it."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from typing import Any

import anyio

from mcp_bridge.cli import logs
from mcp_bridge.cli.exits import ExitCode
from mcp_bridge.cli.options import ListOptions, SchemaOptions, ValidateOptions
from mcp_bridge.cli.output import escape, format_entry_counts, report, report_problems, show_table, write_json
from mcp_bridge.cli.target import load_target, run_until_started
from mcp_bridge.contracts.errors import ConfigError, SourceError
from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.wire.client_names import to_client_name


def list_entries(options: ListOptions) -> None:
    """List the entries as tables (stderr) and tool names (stdout, unless it is a terminal), or as JSON."""
    logs.configure_logging(options.log_level)
    bridge = load_target(options.file).bridge
    anyio.run(run_until_started, bridge)
    tools = bridge.registry.search(tags=options.tag or [], match_all_tags=options.all_tags)
    others = [] if options.tag else _describe_others(bridge.registry)
    if options.as_json:
        write_json([*map(_describe_tool, tools), *others])
        return
    if not sys.stdout.isatty():
        for tool in tools:
            print(escape(tool.name))
    rows = [(tool.name, _first_line(tool.description), ", ".join(tool.tags), tool.owner) for tool in tools]
    show_table(("tool", "description", "tags", "source"), rows, empty="no tools")
    if others:
        show_table(("kind", "name", "description", "source"), [_to_cells(other) for other in others])
    report_problems(bridge.problems)


def _describe_tool(entry: ToolEntry) -> dict[str, Any]:
    row = {"kind": "tool", **entry.to_dict(), "client_name": to_client_name(entry.name), "source": entry.owner}
    extras = {"title": entry.title, "annotations": entry.annotations, "icons": entry.icons, "meta": entry.meta}
    return row | {key: value for key, value in extras.items() if value}


def _describe_others(registry: ToolRegistry) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for kind, key, catalog in (
        ("resource", "uri", registry.resources),
        ("template", "uri_template", registry.templates),
        ("prompt", "name", registry.prompts),
    ):
        for entry in catalog:
            own = {key: getattr(entry, key), "name": entry.name, "description": entry.description}
            rows.append({"kind": kind, **own, "source": entry.owner})
            if isinstance(entry, PromptEntry):
                rows[-1]["arguments"] = [asdict(argument) for argument in entry.arguments]
    return rows


def _to_cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    name = row.get("uri") or row.get("uri_template") or row["name"]
    return row["kind"], name, _first_line(row["description"]), row["source"]


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def validate_target(options: ValidateOptions) -> None:
    """Report every problem that serving would have; exit with 1 if there are any."""
    logs.configure_logging(options.log_level)
    try:
        bridge = load_target(options.file).bridge
    except ConfigError as error:
        if options.as_json:
            write_json({"ok": False, "tools": [], "problems": {}, "errors": str(error).splitlines()})
        raise
    with contextlib.suppress(ConfigError, SourceError):  # the problems of the bridge include what these errors say
        anyio.run(run_until_started, bridge)
    ok = not any(bridge.problems.values())
    if options.as_json:
        write_json({"ok": ok, "tools": bridge.registry.list_names(), "problems": bridge.problems, "errors": []})
    else:
        report_problems(bridge.problems)
        report(f"{format_entry_counts(bridge.registry)}{', no problems' if ok else '; see the problems above'}")
    raise SystemExit(ExitCode.OK if ok else ExitCode.FAILED)


def print_settings_schema(options: SchemaOptions) -> None:
    from mcp_bridge.registry.plugins import SOURCES, load_source_type
    from mcp_bridge.settings import build_json_schema

    write_json(build_json_schema({name: load_source_type(name) for name in SOURCES}))
