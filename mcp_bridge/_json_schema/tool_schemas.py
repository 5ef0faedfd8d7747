"""Checks the schemas of tools before they are published: those of the user's own tools, and those of third parties.

A schema of the user's own that cannot be checked is rejected: its author would believe that arguments are checked. The
schema of a third party costs the tool nothing but the keyword, because the tool checks its arguments itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.plain_schemas import is_plain

_SIDES = {"input_schema": "input schema", "output_schema": "output schema"}


def find_schema_problems(entry: ToolEntry) -> list[str]:
    """Return why a tool of the user's own is not published."""
    problems = [f"{side} {problem}" for key, side in _SIDES.items() for problem in _check_schema(getattr(entry, key))]
    return [f"tool '{entry.name}' is not published: {problem}" for problem in problems]


def repair_tools(entries: Iterable[ToolEntry]) -> tuple[list[ToolEntry], list[str]]:
    """Return tools with schemas that clients understand, and a note for everything that is not checked or left out."""
    tools, notes = [], list[str]()
    for entry in entries:
        tool, lines = repair_schemas(entry)
        tools.append(tool)
        notes += lines
    return tools, notes


def repair_schemas(entry: ToolEntry) -> tuple[ToolEntry, list[str]]:
    """Return a tool with schemas that clients understand, and a note for everything that is not checked or left out."""
    schemas: dict[str, Any] = {}
    notes: list[str] = []
    for key, side in _SIDES.items():
        schema = getattr(entry, key)
        if is_plain(schema):
            continue
        from mcp_bridge._json_schema.validator import repair_third_party_schema  # plain schemas need no validator

        schemas[key], lines = repair_third_party_schema(schema)
        notes += [f"tool '{entry.name}': {side} {line}" for line in lines]
    return (replace(entry, **schemas), notes) if notes else (entry, [])


def _check_schema(schema: Any) -> list[str]:
    if is_plain(schema):
        return []
    from mcp_bridge._json_schema.validator import check_schema

    return check_schema(schema)
