"""The JSON types that a schema allows, as far as its own keywords say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANY_TYPE = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def list_types(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """List the JSON types that a schema allows; all of them if it does not say. `root` has the definitions."""
    schema = resolve_reference(schema, root)
    kind = schema.get("type")
    if isinstance(kind, str | list):
        return frozenset([kind] if isinstance(kind, str) else kind) & ANY_TYPE
    if isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        return frozenset(map(get_type, values))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return frozenset(kind for choice in choices for kind in list_types(choice, root))
    return ANY_TYPE


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
