"""Schemas in the shape that MCP wants: an object at the root, whatever the tool's own schema is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge.wire.values import plain

_OBJECT_WORDS = frozenset(
    {
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    }
)  # fmt: skip
_ROOT_WORDS = ("$defs", "definitions", "$schema")
_MAX_HOPS = 32


def takes_object(schema: Any) -> bool:
    """Whether an object can fit `schema` at its root; an empty schema takes anything, so also an object."""
    return _takes_object(schema, schema, 0)


def _takes_object(schema: Any, root: Any, hops: int) -> bool:
    if not isinstance(schema, Mapping) or hops > _MAX_HOPS:
        return True
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind == "object"
    if isinstance(kind, list | tuple):
        return "object" in kind
    if _OBJECT_WORDS & schema.keys():
        return True
    if isinstance(reference := schema.get("$ref"), str):
        return _takes_object(_resolve(reference, root), root, hops + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(word), list | tuple) and branches:
            return any(_takes_object(branch, root, hops + 1) for branch in branches)
    if isinstance(parts := schema.get("allOf"), list | tuple) and parts:
        return all(_takes_object(part, root, hops + 1) for part in parts)
    if "const" in schema:
        return isinstance(schema["const"], Mapping)
    if isinstance(values := schema.get("enum"), list | tuple):
        return any(isinstance(value, Mapping) for value in values)
    return True


def always_object(schema: Any) -> bool:
    """Whether whatever fits `schema` is an object."""
    return _always_object(schema, schema, 0)


def _always_object(schema: Any, root: Any, hops: int) -> bool:
    if not isinstance(schema, Mapping) or hops > _MAX_HOPS:
        return False
    if "type" in schema:
        return schema["type"] in ("object", ["object"])
    if isinstance(reference := schema.get("$ref"), str):
        return _always_object(_resolve(reference, root), root, hops + 1)
    for word, together in (("anyOf", all), ("oneOf", all), ("allOf", any)):
        if isinstance(parts := schema.get(word), list | tuple) and parts:
            return together(_always_object(part, root, hops + 1) for part in parts)
    return False


def _resolve(reference: str, root: Any) -> Any:
    node = root
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if reference.startswith("#") else None


def as_object(schema: Any) -> dict[str, Any]:
    """A schema that takes objects, with `type: object` said at its root."""
    if not isinstance(schema, Mapping):
        return {"type": "object", "not": {}} if schema is False else {"type": "object"}
    return {**plain(schema), "type": "object"}


def wrapped(schema: Any, key: str) -> dict[str, Any]:
    """An object schema with `schema` as its one property `key`; definitions move to the root, references follow."""
    inner = plain(schema)
    if not isinstance(inner, dict):
        return {"type": "object", "properties": {key: inner}, "required": [key]}
    moved = {word: inner.pop(word) for word in _ROOT_WORDS if word in inner}
    inner = _moved(inner, f"#/properties/{key}")
    return {
        "type": "object",
        "properties": {key: inner},
        "required": [key],
        **_moved(moved, f"#/properties/{key}"),
    }


def _moved(node: Any, prefix: str) -> Any:
    """References that pointed at the old root point at where it went; those into definitions stay."""
    if isinstance(node, list):
        return [_moved(item, prefix) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {name: _moved(value, prefix) for name, value in node.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and _is_rooted(reference):
        moved["$ref"] = prefix + reference[1:]
    return moved


def _is_rooted(reference: str) -> bool:
    """Whether a reference points into the old root, definitions apart."""
    return reference == "#" or (reference.startswith("#/") and not reference.startswith(("#/$defs/", "#/definitions/")))
