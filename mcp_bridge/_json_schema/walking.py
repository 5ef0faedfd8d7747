"""Walks schemas: the subschemas of a schema, and the schemas that apply to the same value as a schema.

Keywords that contain data, such as `enum`, contain no schemas. Every walk ends, even in a schema that contains itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from mcp_bridge._json_schema.references import REFERRING, resolve_pointer

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
UNIONS = ("anyOf", "oneOf")
COMBINATORS = ("allOf", *UNIONS)
APPLICATORS = (*COMBINATORS, "if", "then", "else", "not", "dependentSchemas")
"""Keywords whose schemas apply to the same value."""
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


def get_mapping(schema: Any, keyword: str) -> Mapping[str, Any]:
    """Return the value of a keyword if it is a mapping, else an empty one."""
    value = schema.get(keyword) if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def get_list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the value of a keyword if it is a list, else an empty one."""
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def select_texts(value: Any) -> list[str]:
    """Return the texts in a list such as `required`."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else []


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


def list_references(schema: Any) -> list[str]:
    """Return the references in a schema, as often as they occur."""
    return [str(part[keyword]) for _, part in walk_schemas(schema) for keyword in REFERRING & part.keys()]


def walk_applied_schemas(
    schema: Any, root: Any, keywords: Set[str] | tuple[str, ...] = APPLICATORS, most: int = MAX_SCHEMAS
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that apply to the same value: the schema, and those behind references and these keywords.

    Each is yielded once, the nearest first. `false` is yielded as a schema without values. References are resolved in
    `root`.
    """
    waiting = deque([schema])
    seen: set[int] = set()
    while waiting and len(seen) < most:
        part = waiting.popleft()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part is False:
            yield {"enum": []}
        if not isinstance(part, Mapping):
            continue
        yield part
        if isinstance(part.get("$ref"), str):
            waiting.append(resolve_pointer(part["$ref"], root))
        for keyword in keywords:
            value = part.get(keyword)
            if keyword in MAPS_OF_SCHEMAS or keyword == "dependencies":
                waiting += get_mapping(part, keyword).values()
            elif isinstance(value, list):
                waiting += value
            else:
                waiting.append(value)
