"""Where a schema has schemas in it, as JSON Schema's keywords say; what is data, such as `enum`, has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
"""Keywords that say nothing about what fits."""
MAX_DEPTH = 64

Steps = tuple[str | int, ...]


def parts(schema: Mapping[str, Any]) -> Iterator[tuple[Steps, Any]]:
    """The schemas right below one, each with the keys that lead there."""
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            yield from (((keyword, name), part) for name, part in value.items())
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            yield from (((keyword, index), part) for index, part in enumerate(value))
        elif keyword in SCHEMAS:
            yield (keyword,), value


def mapped(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy in which every schema right below is what `change` makes of it."""
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            made[keyword] = {name: change(part) for name, part in value.items()}
        elif isinstance(value, list | tuple) and (keyword in LISTS_OF_SCHEMAS or keyword == "items"):
            made[keyword] = [change(part) for part in value]
        else:
            made[keyword] = change(value) if keyword in SCHEMAS else value
    return made


def each(schema: Any, *, most: int = 10_000) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Every schema in a schema, itself first, with the keys that lead there; references are not followed.

    A schema that contains itself ends at `most`, or where it is too deep.
    """
    waiting: list[tuple[Steps, Any]] = [((), schema)]
    while waiting and most > 0:
        steps, part = waiting.pop()
        if not isinstance(part, Mapping) or len(steps) > 2 * MAX_DEPTH:
            continue
        most -= 1
        yield steps, part
        waiting += reversed([((*steps, *more), inner) for more, inner in parts(part)])
