"""Finds the JSON types of values, and of the allowed values of a schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.walking import MAX_DEPTH, UNIONS, get_list, list_values, select_texts

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_TYPE_NAMES: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array",
    tuple: "array", dict: "object",
}  # fmt: skip
_OBJECT_KEYWORDS = frozenset(
    {
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    }
)  # fmt: skip


def get_type(value: Any) -> str:
    """Return the JSON type of a value, or the name of its Python type if JSON has no such values."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def has_type(value: Any, types: Collection[str]) -> bool:
    """Whether a value has one of these types. A number without a fraction is an integer."""
    name = get_type(value)
    if name in types or (name == "integer" and "number" in types):
        return True
    return "integer" in types and isinstance(value, float) and value.is_integer()


def simplify_types(types: Collection[str]) -> list[str]:
    """Return types in order. `number` includes `integer`, so `integer` is left out then."""
    return sorted(name for name in types if name != "integer" or "number" not in types)


def list_declared_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types in the keyword `type`, including unknown ones."""
    types = schema.get("type")
    return [types] if isinstance(types, str) else select_texts(types)


def list_types(schema: Any, root: Any, *, is_exact: bool = False) -> frozenset[str]:
    """Return the types of the matching values of a schema. With `number`, `integer` is among them.

    References are resolved in `root`. JSON Schema applies keywords such as `properties` only to objects, so without a
    `type` a schema with them accepts values of every type. The author surely means objects, so this function returns
    only `object`, unless `is_exact`.
    """
    return _TypeSearch(root, is_exact).list_types(schema, 0)


class _TypeSearch:
    """Finds the types of schemas of one root. Each schema is read once, because they may lead back to themselves."""

    def __init__(self, root: Any, is_exact: bool) -> None:
        self._root = root
        self._is_exact = is_exact
        self._types: dict[int, frozenset[str]] = {}

    def list_types(self, schema: Any, depth: int) -> frozenset[str]:
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else TYPES
        if id(schema) not in self._types:
            if depth > 2 * MAX_DEPTH:
                return TYPES
            # A recursive reference to this schema gets this preliminary result, which restricts nothing.
            self._types[id(schema)] = TYPES
            self._types[id(schema)] = self._read_types(schema, depth + 1)
        return self._types[id(schema)]

    def _read_types(self, schema: Mapping[str, Any], depth: int) -> frozenset[str]:
        """Return the types of a schema that is not `True` or `False`."""
        types = TYPES
        if "type" in schema:
            types = TYPES.intersection(list_declared_types(schema)) or TYPES
        elif not self._is_exact and not _OBJECT_KEYWORDS.isdisjoint(schema):
            types = frozenset({"object"})
        if "number" in types:
            types |= {"integer"}
        values = list_values(schema)
        if values is not None:
            types = frozenset(name for name in types if any(has_type(value, (name,)) for value in values))
        if len(types) < 2:
            return types
        if isinstance(schema.get("$ref"), str):
            types &= self.list_types(resolve_pointer(schema["$ref"], self._root), depth)
        for subschema in get_list(schema, "allOf"):
            types &= self.list_types(subschema, depth)
        for keyword in UNIONS:
            alternatives = get_list(schema, keyword)
            if alternatives:
                types &= frozenset().union(*(self.list_types(subschema, depth) for subschema in alternatives))
        return types
