"""The JSON types that a schema allows, as far as its own keywords say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.keywords import list_values

ANY_TYPE = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def list_types(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """List the JSON types that a schema allows; all of them if it does not say. `root` has the definitions."""
    types: set[str] = set()
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        # Alternatives can refer to a schema that contains them, or double at each level.
        if id(part) in seen:
            continue
        seen.add(id(part))
        part = resolve_reference(part, root)
        kind = part.get("type")
        choices = part.get("anyOf") or part.get("oneOf")
        if isinstance(kind, str | list):
            types |= {name for name in ([kind] if isinstance(kind, str) else kind) if name in ANY_TYPE}
        elif (values := list_values(part)) is not None:
            types |= set(map(get_type, values))
        elif isinstance(choices, list):
            waiting += choices
        else:
            return ANY_TYPE
    return frozenset(types)


def resolve_reference(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the definition of the same document that it refers to."""
    if not isinstance(schema, Mapping):
        return {}
    section, _, name = str(schema.get("$ref", "")).removeprefix("#/").partition("/")
    definitions = root.get(section)
    found = definitions.get(name) if name and isinstance(definitions, Mapping) else None
    return {**found, **schema} if isinstance(found, Mapping) and "$ref" not in found else schema


def get_type(value: Any) -> str:
    """Return the JSON type of a value; `null` for one that is not JSON."""
    return _TYPES.get(type(value), "null")
