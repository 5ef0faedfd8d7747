"""Walks schemas: the subschemas of a schema, and all schemas for the same value as a schema.

Keywords with data, such as `enum`, have no schemas. Every walk ends, even in a schema that contains itself.
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
"""Keywords with schemas for the same value."""
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that accept all values."""
MAX_DEPTH = 64
MAX_SCHEMAS = 10_000
"""Ends a walk in a schema that contains itself."""

Steps = tuple[str | int, ...]


def list_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Steps, Any]]:
    """Yield the schemas directly below, each with its keys."""
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            for name, subschema in value.items():
                yield (keyword, name), subschema
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            for index, subschema in enumerate(value):
                yield (keyword, index), subschema
        elif keyword in SCHEMAS:
            yield (keyword,), value


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy with the result of `change` in place of each schema directly below."""
    copy = dict(schema)
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            copy[keyword] = {name: change(subschema) for name, subschema in value.items()}
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            copy[keyword] = [change(subschema) for subschema in value]
        elif keyword in SCHEMAS:
            copy[keyword] = change(value)
    return copy


def has_any_keyword(schema: Any, keywords: Set[str]) -> bool:
    """Return whether a schema, or anything in it, has one of these keywords. References are not followed."""
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
    """Return the values of `const` or `enum`, or None for a schema without them."""
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def walk_schemas(schema: Any) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Yield every schema in a schema with its keys, itself first. References are not followed.

    Stops after MAX_SCHEMAS, because a schema may contain itself.
    """
    stack: list[tuple[Steps, Any]] = [((), schema)]
    count = 0
    while stack and count < MAX_SCHEMAS:
        path, node = stack.pop()
        if isinstance(node, Mapping) and len(path) <= 2 * MAX_DEPTH:
            count += 1
            yield path, node
            stack += reversed([(path + steps, subschema) for steps, subschema in list_subschemas(node)])


def list_references(schema: Any) -> list[str]:
    """Return the references in a schema, as often as they occur."""
    references = []
    for _, subschema in walk_schemas(schema):
        references += [str(subschema[keyword]) for keyword in REFERRING & subschema.keys()]
    return references


def walk_applied_schemas(
    schema: Any, root: Any, keywords: Set[str] | tuple[str, ...] = APPLICATORS, most: int = MAX_SCHEMAS
) -> Iterator[Mapping[str, Any]]:
    """Yield all schemas for the same value: the schema, and those behind references and these keywords.

    Each is yielded once, the nearest first, at most `most` of them. `false` becomes a schema without values.
    References are resolved in `root`.
    """
    queue = deque([schema])
    visited: set[int] = set()
    while queue and len(visited) < most:
        node = queue.popleft()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node is False:
            yield {"enum": []}
        if not isinstance(node, Mapping):
            continue
        yield node
        if isinstance(node.get("$ref"), str):
            queue.append(resolve_pointer(node["$ref"], root))
        for keyword in keywords:
            value = node.get(keyword)
            if keyword in MAPS_OF_SCHEMAS or keyword == "dependencies":
                queue += get_mapping(node, keyword).values()
            elif isinstance(value, list):
                queue += value
            else:
                queue.append(value)
