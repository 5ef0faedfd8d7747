"""Puts schemas into the form that MCP requires: an object at the root, whatever the tool's own schema is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._protocol.wire.values import to_plain

_OBJECT_WORDS = frozenset(
    {
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    }
)  # fmt: skip
_DEFINITIONS = ("#/$defs/", "#/definitions/")
_ROOT_WORDS = ("$defs", "definitions", "$schema", "$id")


def can_be_object(schema: Any) -> bool:
    """Whether an object can match `schema`. True for `false` too: nothing matches it, with or without a wrapper."""
    return schema is False or _SchemaAnalysis(schema).can_match(schema, "object")


def can_be_null(schema: Any) -> bool:
    return _SchemaAnalysis(schema).can_match(schema, "null")


def is_always_object(schema: Any) -> bool:
    return _SchemaAnalysis(schema).is_object(schema)


class _SchemaAnalysis:
    """Analyses a schema from its root. Each reference is followed once, because it may lead back to itself."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, bool] = {}

    def can_match(self, schema: Any, kind: str) -> bool:
        """Whether a value of this kind (object or null) can match."""
        if not isinstance(schema, Mapping):
            return schema is not False
        if isinstance(declared := schema.get("type"), str | list | tuple):
            return kind == declared if isinstance(declared, str) else kind in declared
        if _OBJECT_WORDS & schema.keys():
            return kind == "object"
        if isinstance(reference := schema.get("$ref"), str):
            return self._follow_reference(reference, lambda target: self.can_match(target, kind), assumed=True)
        for word, combine in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            if isinstance(parts := schema.get(word), list | tuple) and parts:
                return combine(self.can_match(part, kind) for part in parts)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list | tuple):
            return any(value is None if kind == "null" else isinstance(value, Mapping) for value in values)
        return True

    def is_object(self, schema: Any) -> bool:
        if not isinstance(schema, Mapping):
            return False
        if "type" in schema:
            return schema["type"] in ("object", ["object"])
        if isinstance(reference := schema.get("$ref"), str):
            return self._follow_reference(reference, self.is_object, assumed=False)
        for word, combine in (("anyOf", all), ("oneOf", all), ("allOf", any)):
            if isinstance(parts := schema.get(word), list | tuple) and parts:
                return combine(self.is_object(part) for part in parts)
        return False

    def _follow_reference(self, reference: str, analyse: Callable[[Any], bool], *, assumed: bool) -> bool:
        if reference not in self._known:
            self._known[reference] = assumed  # the result where the reference leads back to itself
            self._known[reference] = analyse(resolve_pointer(reference, self._root))
        return self._known[reference]


def as_object(schema: Any) -> dict[str, Any]:
    """Return a schema of objects with `type: object` at its root."""
    if not isinstance(schema, Mapping):
        return {"type": "object", "not": {}} if schema is False else {"type": "object"}
    return {**sanitize_root(schema), "type": "object"}


def sanitize_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without the root keywords whose values have types that MCP does not accept."""
    copy: dict[str, Any] = to_plain(schema)
    if "properties" in copy and isinstance(properties := copy["properties"], dict):
        copy["properties"] = {name: part for name, part in properties.items() if isinstance(part, dict | bool)}
    return {word: value for word, value in copy.items() if word not in _ROOT_TYPES or _ROOT_TYPES[word](value)}


_ROOT_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "$schema": lambda value: isinstance(value, str),
    "properties": lambda value: isinstance(value, dict),
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
}


def wrap_schema(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object schema with `schema` as its one property `key`. Definitions move to the root."""
    inner = sanitize_root(schema)
    moved = {word: inner.pop(word) for word in _ROOT_WORDS if word in inner}
    inner = _move_references(inner, f"#/properties/{key}")
    definitions = _move_references(moved, f"#/properties/{key}")
    return {"type": "object", "properties": {key: inner}, "required": [key], **definitions}


def _move_references(node: Any, prefix: str) -> Any:
    """Make references to the old root, except those into its definitions, point to its new place."""
    if isinstance(node, list):
        return [_move_references(item, prefix) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {name: _move_references(value, prefix) for name, value in node.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and (reference + "/").startswith("#/") and not reference.startswith(_DEFINITIONS):
        moved["$ref"] = prefix + reference[1:]
    return moved
