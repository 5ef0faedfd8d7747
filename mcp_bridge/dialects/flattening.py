"""Schemas without a union at their root: one object with the properties of all alternatives, and words on which go
together.

The schema that validates stays the one before: a combination that fits none of the alternatives is refused there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.dialects.combining import values_of
from mcp_bridge.dialects.shapes import ANY, UNIONS, Shape, shape_of, ways
from mcp_bridge.pointer import resolve
from mcp_bridge.schema.keywords import each

COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "enum", "const", "$ref")
"""What a flat schema has not at its root."""
_REMADE = frozenset({*COMBINATORS, "properties", "required", "additionalProperties", "unevaluatedProperties"})
_SPELLED = 12
"""The most alternatives that are told in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A flat schema, and which of its properties go together, in words: for the description."""

    schema: dict[str, Any]
    told: str = ""


def flattened(schema: dict[str, Any]) -> Flat:
    """The object that a schema comes to; the same object where its root has no combinators, or takes no object."""
    if not any(word in schema for word in COMBINATORS):
        return Flat(schema=schema)
    shape = shape_of(schema, schema)
    if shape is None:
        return Flat(schema=schema)
    made = {word: value for word, value in schema.items() if word not in _REMADE} | {"type": "object"}
    made["properties"] = dict(shape.properties)
    if required := [name for name in shape.required if name in shape.properties or shape.rest is not False]:
        made["required"] = required
    if shape.rest is not True:
        made["additionalProperties"] = shape.rest
    if _dangles(made):
        return Flat(schema=schema)
    return Flat(schema=made, told="\n".join(_told(schema)))


def _dangles(schema: Mapping[str, Any]) -> bool:
    """Whether a reference led into what is no longer there."""
    references = (part.get("$ref") for _, part in each(schema))
    return any(isinstance(one, str) and one.startswith("#/") and resolve(one, schema) is None for one in references)


def _told(schema: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each union."""
    own = shape_of({word: value for word, value in schema.items() if word not in UNIONS}, schema)
    own = own or ANY
    for union in ways(schema, schema):
        told = list(dict.fromkeys(way for shape in union if (way := _way(shape, own))))
        if len(told) > 1:
            more = f"; and {len(told) - _SPELLED} more" if len(told) > _SPELLED else ""
            numbered = [f"({number}) {way}" for number, way in enumerate(told[:_SPELLED], start=1)]
            yield f"Arguments go together in one of these ways: {'; '.join(numbered)}{more}."


def _way(shape: Shape, own: Shape) -> str:
    """One alternative: the fixed values that tell it, what it requires, what it has besides."""
    fixed = {name: values[0] for name, part in shape.properties.items() if len(values := _values(part)) == 1}
    needed = [f"`{name}` = {_shown(fixed[name])}" for name in fixed]
    needed += [f"`{name}`" for name in shape.required if name not in fixed and name not in own.required]
    optional = [f"`{name}`" for name in shape.properties if name not in {*fixed, *shape.required, *own.properties}]
    return ", ".join(needed) + (f"{' ' if needed else ''}[optional: {', '.join(optional)}]" if optional else "")


def _values(part: Any) -> Sequence[Any]:
    return (values_of(part) or ()) if isinstance(part, Mapping) else ()


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
