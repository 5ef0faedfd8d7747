"""Walks schemas.

`walk_schemas` yields all schemas inside a schema. `walk_applied_schemas` yields only those for the same value, such as
the alternatives of `anyOf`. Keywords with data, such as `enum`, have no schemas. Every walk ends, even in a schema that
contains itself.
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
"""Keywords whose value is a list of schemas."""
MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value has schemas by name."""
DEFINITIONS = frozenset({"$defs", "definitions"})
UNIONS = ("anyOf", "oneOf")
COMBINATORS = ("allOf", *UNIONS)
APPLICATORS = (*COMBINATORS, "if", "then", "else", "not", "dependentSchemas")
"""Keywords whose schemas apply to the same value."""
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords without an influence on validity."""
MAX_DEPTH = 64
"""The maximum number of levels of a schema."""
MAX_SCHEMAS = 10_000
"""The maximum number of schemas that a walk visits. It ends a walk in a schema that contains itself."""

Steps = tuple[str | int, ...]
"""The keys and indexes from a schema to one inside it."""


def list_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Steps, Any]]:
    """Yield the schemas directly below a schema, each with its steps."""
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
    """Return a copy of a schema with the result of `change` in place of each schema directly below it."""
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
    """Whether a schema, or any mapping in it, has one of these keywords. References are not followed."""
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
    """Return the texts in a list such as `required`, and nothing for any other value."""
    if not isinstance(value, list | tuple):
        return []
    return [name for name in value if isinstance(name, str)]


def list_values(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the values of `const` or `enum`, or None for a schema without them."""
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def walk_schemas(schema: Any) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Yield every schema in a schema with its steps, itself first. References are not followed.

    It stops after MAX_SCHEMAS, because a schema may contain itself.
    """
    stack: list[tuple[Steps, Any]] = [((), schema)]
    count = 0
    while stack and count < MAX_SCHEMAS:
        path, node = stack.pop()
        if isinstance(node, Mapping) and len(path) <= 2 * MAX_DEPTH:
            count += 1
            yield path, node
            # The stack returns the last item first, so this keeps the order of the schemas.
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
    """Yield all schemas that apply to the same value: the schema, and those of its references and of these keywords.

    Each is yielded once, the nearest first, and at most `most` of them. `false` becomes a schema without values.
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
