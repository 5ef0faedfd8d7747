"""Schemas that clients reject or misread, and tools with such schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._protocol.dialects.dialect import SchemaDialect

FULL_DIALECT = SchemaDialect(inline_references=True, flatten_unions=True, write_properties=True, parse_strings=True)
ADDRESS: dict[str, Any] = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
    "required": ["street"],
}
REFERRING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "home": {"$ref": "#/$defs/Address"},
        "others": {"type": "array", "items": {"$ref": "#/$defs/Address", "description": "One of many."}},
    },
    "required": ["home"],
    "$defs": {"Address": ADDRESS},
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    "$defs": {
        "Tree": {
            "type": "object",
            "title": "Tree",
            "properties": {
                "name": {"type": "string"},
                "branches": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name"],
        }
    },
}
SHAPES: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "oneOf": [
        {
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["kind", "radius"],
        },
        {
            "properties": {"kind": {"const": "square"}, "side": {"type": "number"}, "turned": {"type": "boolean"}},
            "required": ["kind", "side"],
        },
    ],
}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
VALUES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "numbers": {"type": "array", "items": {"type": "number"}},
        "place": {"anyOf": [POINT, {"type": "null"}]},
        "count": {"type": "integer"},
        "exact": {"type": "boolean"},
        "note": {"type": "string"},
        "either": {"type": ["string", "integer"]},
    },
}


def build_registry(schema: dict[str, Any], handler: Callable[[Any], Any] = json.dumps, name: str = "t") -> ToolRegistry:
    """Return a registry of one tool with this input schema. By default it returns its arguments as JSON."""
    registry = ToolRegistry()
    registry.register(ToolEntry(name, "Does it.", handler, schema))
    return registry


def build_bridge(schema: dict[str, Any], dialect: SchemaDialect = FULL_DIALECT, **fields: Any) -> Bridge:
    """Return a bridge with one tool in a dialect."""
    return Bridge(build_registry(schema, **fields), dialect=dialect)
