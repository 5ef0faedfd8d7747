"""`list`, `validate` and `schema`: what would be served, without serving it."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.cli.exits import Exit, escaped, published, say
from mcp_bridge.cli.target import load
from mcp_bridge.contracts.errors import ConfigError, SourceError
from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.wire.names import client_name
from mcp_bridge.wire.values import plain


def data(value: Any) -> None:
    """A value as JSON on stdout."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


async def started(bridge: Bridge) -> None:
    """Run the sources until each has said what it has. Raises ConfigError and SourceError as a start would."""
    async with bridge.running(serving=False):
        await bridge.started()


def show_list(path: Path | None, *, as_json: bool, tags: list[str], match_all: bool) -> None:
    """The tools as a table for a person (stderr), and their names (stdout, when that is not a terminal)."""
    bridge = load(path).bridge
    anyio.run(started, bridge)
    entries = bridge.registry.search(tags=tags, match_all_tags=match_all)
    if as_json:
        data([_row(entry) for entry in entries] + ([] if tags else _others(bridge.registry)))
        return
    if not sys.stdout.isatty():
        for entry in entries:
            print(escaped(entry.name))
    _table(entries)
    if not tags:
        _other_table(_others(bridge.registry))
    _warn(bridge)


def _row(entry: ToolEntry) -> dict[str, Any]:
    row = {"kind": "tool", **entry.to_dict(), "client_name": client_name(entry.name), "source": entry.owner}
    extras = {"title": entry.title, "annotations": entry.annotations, "icons": entry.icons, "meta": entry.meta}
    return row | {key: value for key, value in extras.items() if value}


def _others(registry: ToolRegistry) -> list[dict[str, Any]]:
    """Resources, templates and prompts, a row each."""
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


def _other_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    table = Table("kind", "name", "description", "source", box=None, header_style="bold")
    for row in rows:
        lines = row["description"].strip().splitlines()
        name = row.get("uri") or row.get("uri_template") or row["name"]
        table.add_row(*map(escaped, (row["kind"], name, lines[0] if lines else "", row["source"])))
    Console(stderr=True, highlight=False, markup=False).print(table)


def _table(entries: list[ToolEntry]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("tool", "description", "tags", "source", box=None, header_style="bold")
    for entry in entries:
        lines = entry.description.strip().splitlines()
        cells = (entry.name, lines[0] if lines else "", ", ".join(entry.tags), entry.owner)
        table.add_row(*map(escaped, cells))
    console = Console(stderr=True, highlight=False, markup=False)
    console.print(table if entries else "no tools")


def _warn(bridge: Bridge) -> None:
    for source, problems in bridge.problems.items():
        for problem in problems:
            say(f"source '{source}': {problem}")


def validate(path: Path | None, *, as_json: bool) -> None:
    """Check settings and sources: everything that a start would report, and exit 1 if there is anything."""
    try:
        bridge = load(path).bridge
    except ConfigError as error:
        if as_json:
            data({"ok": False, "tools": [], "problems": {}, "errors": str(error).splitlines()})
        raise
    with contextlib.suppress(ConfigError, SourceError):  # what a start refuses is among the problems
        anyio.run(started, bridge)
    sound = not any(bridge.problems.values())
    if as_json:
        data({"ok": sound, "tools": bridge.registry.list_names(), "problems": bridge.problems, "errors": []})
    else:
        _warn(bridge)
        say(f"{published(bridge.registry)}, {'no problems' if sound else 'see above'}")
    raise SystemExit(Exit.OK if sound else Exit.FAILED)


def settings_schema() -> None:
    """The JSON Schema of the settings file, for editors."""
    from mcp_bridge.registry.plugins import SOURCES, source_type
    from mcp_bridge.settings import json_schema

    data(json_schema({name: source_type(name) for name in SOURCES}))
