"""`list` and `schema`: what would be served, and what can be set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import ListOptions, SchemaOptions
from mcp_bridge._cli.output import print_lines, report_problems, show_table, write_json
from mcp_bridge._cli.schema_values import format_parameters
from mcp_bridge._cli.server_address import ServerAddress, find_address
from mcp_bridge._cli.target import load_target, run_until_started
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._runtime.terminal_text import escape_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a server publishes, as rows of JSON, and the problems of its sources."""

    tools: Sequence[dict[str, Any]]
    others: Sequence[dict[str, Any]]
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_broken: bool = False


def list_entries(options: ListOptions) -> None:
    """Print the entries as tables, as names or as JSON. Exits with 1 if no source works. Raises ConfigError."""
    logs.configure_logging(options.log_level)
    address = find_address(options.target, options.command, options.token_env)
    if address is not None and options.tag:
        raise ConfigError("MCP servers do not publish tags", where="--tag", hint="Use it with a file")
    with reserve_stdio():  # stdout is only for the result
        listing = _read_listing(options) if address is None else _read_remote_listing(address)
    if options.as_json:
        write_json([*listing.tools, *listing.others])
    else:
        if options.quiet:
            print_lines(*(escape_line(row["name"]) for row in listing.tools))
        else:
            _show_listing(listing)
        report_problems(listing.problems)
        report_problems(listing.notes)
    if listing.is_broken:
        raise SystemExit(ExitCode.FAILED)


def _read_listing(options: ListOptions) -> Listing:
    bridge = load_target(Path(options.target) if options.target is not None else None).bridge
    anyio.run(run_until_started, bridge)
    tools = bridge.registry.search(tags=options.tag or [], match_all_tags=options.all_tags)
    others = _describe_others(bridge.registry)
    # Without any source that works, a script must not take the empty list for the tools of the servers.
    publishing = {entry.owner for entry in bridge.registry.list()} | {row["source"] for row in others}
    names = {source.name for source in bridge.sources}
    is_broken = names.isdisjoint(publishing) and any(map(bridge.problems.get, names))
    rows = [*map(_describe_tool, tools)]
    return Listing(
        tools=rows,
        others=[] if options.tag else others,
        problems=bridge.problems,
        # Those about single tools are reported by `validate`.
        notes=bridge.settings_notes,
        is_broken=is_broken,
    )


def _read_remote_listing(address: ServerAddress) -> Listing:
    from mcp_bridge._cli.remote import read_remote_entries

    rows = anyio.run(read_remote_entries, address)
    return Listing(
        tools=[row for row in rows if row["kind"] == "tool"], others=[row for row in rows if row["kind"] != "tool"]
    )


def _show_listing(listing: Listing) -> None:
    columns = ("tool", "parameters", "description", "tags", "source")
    show_table(columns, [_to_tool_cells(row) for row in listing.tools], empty="no tools")
    if listing.others:
        print()
        columns = ("kind", "name", "parameters", "description", "source")
        show_table(columns, [_to_cells(row) for row in listing.others])


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


def _to_tool_cells(row: Mapping[str, Any]) -> Sequence[str]:
    parameters, description = format_parameters(row["input_schema"]), _first_line(row["description"])
    return row["name"], parameters, description, ", ".join(row["tags"]), row["source"]


def _to_cells(row: Mapping[str, Any]) -> Sequence[str]:
    name = row.get("uri") or row.get("uri_template") or row["name"]
    arguments = ", ".join(f"{each['name']}{'' if each['required'] else '?'}" for each in row.get("arguments", ()))
    return row["kind"], name, arguments, _first_line(row["description"]), row["source"]


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def print_settings_schema(options: SchemaOptions) -> None:
    from mcp_bridge._engine.plugins import POLICIES, load_policy_type, load_source_models
    from mcp_bridge._settings import build_json_schema

    write_json(build_json_schema(load_source_models(), {name: load_policy_type(name) for name in POLICIES}))
