"""Gives schemas of tools the form of MCP: an object at the root.

A schema for anything else is wrapped: the object then has the value as its only property. With the key `input`,
`{"type": "string"}` becomes `{"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._protocol.wire.values import to_plain

_DEFINITIONS = ("#/$defs/", "#/definitions/")
_ROOT_KEYWORDS = ("$defs", "definitions", "$schema", "$id")
"""The keywords that stay at the root when a schema is wrapped."""


def can_be_object(schema: Any) -> bool:
    """Whether an object can match `schema`. This includes `false`: nothing matches it, so a wrapper would not help."""
    return schema is False or "object" in list_types(schema, schema)


def can_be_null(schema: Any) -> bool:
    """Whether null can match a schema."""
    return "null" in list_types(schema, schema)


def is_always_object(schema: Any) -> bool:
    """Whether only objects can match a schema."""
    return isinstance(schema, Mapping) and list_types(schema, schema, is_exact=True) <= {"object"}


def as_object(schema: Any) -> dict[str, Any]:
    """Return a schema of objects with `type: object` at its root."""
    if schema is False:
        return {"type": "object", "not": {}}
    if not isinstance(schema, Mapping):
        return {"type": "object"}
    return {**sanitize_root(schema), "type": "object"}


def sanitize_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without keywords at the root if MCP does not accept the types of their values."""
    copy: dict[str, Any] = to_plain(schema)
    if not isinstance(copy.get("$schema", ""), str):
        del copy["$schema"]
    properties, required = copy.get("properties", {}), copy.get("required", [])
    if not isinstance(properties, dict):
        del copy["properties"]
    elif properties:
        copy["properties"] = {name: value for name, value in properties.items() if isinstance(value, dict | bool)}
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        del copy["required"]
    return copy


def wrap_schema(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object schema with `schema` as its one property `key`. Definitions move to the root."""
    inner = sanitize_root(schema)
    root_keywords = {keyword: inner.pop(keyword) for keyword in _ROOT_KEYWORDS if keyword in inner}
    inner = _move_references(inner, f"#/properties/{key}")
    definitions = _move_references(root_keywords, f"#/properties/{key}")
    return {"type": "object", "properties": {key: inner}, "required": [key], **definitions}


def _move_references(node: Any, prefix: str) -> Any:
    """Return a copy whose references to the old root point to its new place. Definitions keep their place."""
    if isinstance(node, list):
        return [_move_references(item, prefix) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {name: _move_references(value, prefix) for name, value in node.items()}
    reference = copy.get("$ref")
    if isinstance(reference, str):
        is_pointer = reference == "#" or reference.startswith("#/")
        if is_pointer and not reference.startswith(_DEFINITIONS):
            copy["$ref"] = prefix + reference[1:]
    return copy
