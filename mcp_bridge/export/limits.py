"""How large a strict schema may be (OpenAI, Structured Outputs, "Supported schemas")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PROPERTIES = 5_000
LEVELS = 10
CHARACTERS = 120_000
"""Of all names of properties and definitions, and of the texts among enums and constants."""
VALUES = 1_000
"""Of all enums together."""
LONG_ENUM, LONG_ENUM_CHARACTERS = 250, 15_000
"""The texts of one enum of more than so many values may have so many characters."""


def excess(schema: Mapping[str, Any]) -> list[str]:
    """A line for each limit that a strict schema goes beyond."""
    objects = [(node, level) for node, level in _nodes(schema, 0) if isinstance(node.get("properties"), Mapping)]
    enums = [node["enum"] for node, _ in _nodes(schema, 0) if isinstance(node.get("enum"), list)]
    texts = [name for node, _ in objects for name in node["properties"]]
    texts += [name for word in ("$defs", "definitions") for name in schema.get(word) or ()]
    texts += [value for enum in enums for value in enum if isinstance(value, str)]
    texts += [str(node["const"]) for node, _ in _nodes(schema, 0) if "const" in node]
    longest = max((sum(map(len, map(str, enum))) for enum in enums if len(enum) > LONG_ENUM), default=0)
    counts = (
        (sum(len(node["properties"]) for node, _ in objects), PROPERTIES, "properties"),
        (max((level for _, level in objects), default=0), LEVELS, "levels of objects"),
        (sum(map(len, texts)), CHARACTERS, "characters of names and values"),
        (sum(map(len, enums)), VALUES, "values of enums"),
        (longest, LONG_ENUM_CHARACTERS, f"characters in an enum of more than {LONG_ENUM} values"),
    )
    return [f"it has {count} {what}, and strict mode takes {most}" for count, most, what in counts if count > most]


def _nodes(schema: Any, level: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Every schema in a strict schema, and how many objects it stands in, its own included."""
    if not isinstance(schema, Mapping):
        return
    level += "properties" in schema
    yield schema, level
    for part in (schema.get("properties") or {}).values():
        yield from _nodes(part, level)
    for part in (schema.get("items"), *(schema.get("anyOf") or ())):
        yield from _nodes(part, level)
    for word in ("$defs", "definitions"):
        for part in (schema.get(word) or {}).values():
            yield from _nodes(part, 0)
