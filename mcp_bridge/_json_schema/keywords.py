"""Which keywords of a schema contain schemas; those that contain data, such as `enum`, do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

SCHEMAS = frozenset(
    {
        "items", "contains", "unevaluatedItems", "additionalItems", "additionalProperties", "propertyNames",
        "unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
    }
)  # fmt: skip
"""Keywords whose value is a schema."""
LISTS_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
DEFINITIONS = frozenset({"$defs", "definitions"})
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that do not restrict which values fit."""
MAX_DEPTH = 64
MAX_SCHEMAS = 10_000
"""Ends a walk in a schema that contains itself."""

Steps = tuple[str | int, ...]


def list_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Steps, Any]]:
    """The schemas directly below, each with the keys that lead there."""
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            yield from (((keyword, name), part) for name, part in value.items())
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            yield from (((keyword, index), part) for index, part in enumerate(value))
        elif keyword in SCHEMAS:
            yield (keyword,), value


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy in which `change` has replaced every schema directly below."""
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            copy[keyword] = {name: change(part) for name, part in value.items()}
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            copy[keyword] = [change(part) for part in value]
        else:
            copy[keyword] = change(value) if keyword in SCHEMAS else value
    return copy


def has_any_keyword(schema: Any, keywords: Set[str]) -> bool:
    """Whether a schema, or anything in it, has one of these keywords. References are not followed."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            if not keywords.isdisjoint(node):
                return True
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
    return False


def list_values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values of `const` or `enum`, or None where a schema has neither."""
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def walk_schemas(schema: Any) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Every schema in a schema, itself first, with the keys that lead there. References are not followed.

    Stops after MAX_SCHEMAS, because a schema may contain itself.
    """
    waiting: list[tuple[Steps, Any]] = [((), schema)]
    left = MAX_SCHEMAS
    while waiting and left > 0:
        steps, part = waiting.pop()
        if not isinstance(part, Mapping) or len(steps) > 2 * MAX_DEPTH:
            continue
        left -= 1
        yield steps, part
        waiting += reversed([((*steps, *more), inner) for more, inner in list_subschemas(part)])
