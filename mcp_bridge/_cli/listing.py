"""`list` prints the entries of a server, and `schema` prints the JSON Schema of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import ListOptions, SchemaOptions
from mcp_bridge._cli.output import print_lines, report_problems, show_table, write_json
from mcp_bridge._cli.schema_values import format_parameters
from mcp_bridge._cli.server_address import ServerAddress, find_address
from mcp_bridge._cli.target import load_and_start
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._runtime.terminal_text import escape_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The entries of a server, as rows of JSON, and the problems of its sources."""

    tools: Sequence[dict[str, Any]]
    others: Sequence[dict[str, Any]]
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_broken: bool = False


def list_entries(options: ListOptions) -> None:
    """Print the entries as tables, as names or as JSON. Exits with 1 if no source works. Raises ConfigError."""
    logs.configure_logging(options.log_level)
    address = find_address(options.target, options)
    if address is not None and options.tag:
        raise ConfigError("MCP servers do not publish tags", where="--tag", hint="Use it with a file")
    listing = _read_listing(options) if address is None else _read_remote_listing(address)
    if options.as_json:
        write_json([*listing.tools, *listing.others])
    else:
        if options.quiet:
            for row in listing.tools:
                print_lines(escape_line(row["name"]))
        else:
            _show_listing(listing)
        report_problems(listing.problems)
        report_problems(listing.notes)
    if listing.is_broken:
        raise SystemExit(ExitCode.FAILED)


def _read_listing(options: ListOptions) -> Listing:
    bridge = load_and_start(options.target)
    registry = bridge.registry
    others = _describe_others(registry)
    # If no source works, the exit code has to show that the list is not really empty.
    sources = {source.name for source in bridge.sources}
    publishing = {entry.owner for entry in registry.list()} | {row["source"] for row in others}
    is_broken = sources.isdisjoint(publishing) and any(bridge.problems.get(name) for name in sources)
    tools = registry.search(tags=options.tag or [], match_all_tags=options.all_tags)
    return Listing(
        tools=[_describe_tool(entry) for entry in tools],
        others=[] if options.tag else others,
        problems=bridge.problems,
        # `validate` reports the notes about single tools, too.
        notes=bridge.settings_notes,
        is_broken=is_broken,
    )


def _read_remote_listing(address: ServerAddress) -> Listing:
    from mcp_bridge._cli.remote import read_remote_entries

    rows = anyio.run(read_remote_entries, address)
    tools = [row for row in rows if row["kind"] == "tool"]
    others = [row for row in rows if row["kind"] != "tool"]
    return Listing(tools=tools, others=others)


def _show_listing(listing: Listing) -> None:
    cells: list[Sequence[str]] = []
    for row in listing.tools:
        parameters = format_parameters(row["input_schema"])
        description = _first_line(row["description"])
        cells.append((row["name"], parameters, description, ", ".join(row["tags"]), row["source"]))
    show_table(("tool", "parameters", "description", "tags", "source"), cells, empty="no tools")
    # Resources, templates and prompts have a table of their own.
    if not listing.others:
        return
    print()
    cells = []
    for row in listing.others:
        name = row.get("uri") or row.get("uri_template") or row["name"]
        arguments: list[str] = []
        for argument in row.get("arguments", ()):
            arguments.append(argument["name"] if argument["required"] else f"{argument['name']}?")
        cells.append((row["kind"], name, ", ".join(arguments), _first_line(row["description"]), row["source"]))
    show_table(("kind", "name", "parameters", "description", "source"), cells)


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
            row = {"kind": kind, key: getattr(entry, key), "name": entry.name, "description": entry.description}
            row["source"] = entry.owner
            if isinstance(entry, PromptEntry):
                row["arguments"] = [asdict(argument) for argument in entry.arguments]
            rows.append(row)
    return rows


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip()


def print_settings_schema(options: SchemaOptions) -> None:
    from mcp_bridge._engine.plugins import POLICIES, load_policy_type, load_source_models
    from mcp_bridge._settings import build_json_schema

    write_json(build_json_schema(load_source_models(), {name: load_policy_type(name) for name in POLICIES}))
