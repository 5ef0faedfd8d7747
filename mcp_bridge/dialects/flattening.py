"""Schemas without a union at their root: one object with the properties of all alternatives, and words on which go
together.

The schema that validates stays the one before: a combination that fits none of the alternatives is refused there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.dialects.budget import Stays
from mcp_bridge.dialects.combining import values_of
from mcp_bridge.dialects.conditions import DEPENDENT, Words, conditions, named
from mcp_bridge.dialects.shapes import ANY, UNIONS, Shape, Shapes
from mcp_bridge.schema.json_pointer import resolve
from mcp_bridge.schema.keywords import each

logger = logging.getLogger("mcp_bridge.dialects")

COMBINATORS = (
    "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "enum", "const", "$ref",
)  # fmt: skip
"""What a flat schema has not at its root."""
_REMADE = frozenset({*COMBINATORS, "properties", "required", "additionalProperties", "unevaluatedProperties"})
_SPELLED = 12
"""The most alternatives that are told in words."""
_LONGEST, _VALUE = 4_000, 100
"""The most characters of these words, and of one value among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A flat schema, and which of its properties go together, in words: for the description."""

    schema: dict[str, Any]
    told: str = ""


def flattened(schema: dict[str, Any], *, of: str = "") -> Flat:
    """The object that a schema comes to; the same object where its root has no combinators, or they have to stay.

    `of` is what the log calls the schema.
    """
    if not any(word in schema for word in (*COMBINATORS, *DEPENDENT)):
        return Flat(schema=schema)
    try:
        flat = _object(schema)
        return Flat(schema=flat, told=_cut("\n".join([*_told(schema), *_tied(schema, flat)]), _LONGEST))
    except Stays as reason:
        logger.warning("the unions at the top of %s stay: %s", of or "a schema", reason)
        return Flat(schema=schema)


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    shape = Shapes(schema).of(schema)
    if shape is None:
        raise Stays("no object fits it")
    made = {word: value for word, value in schema.items() if word not in _REMADE} | {"type": "object"}
    made["properties"] = dict(shape.properties)
    if shape.rest is not False:
        rest = {} if shape.rest is True else shape.rest
        made["properties"] |= {name: rest for name in named(schema) if name not in shape.properties}
    if required := [name for name in shape.required if name in shape.properties or shape.rest is not False]:
        made["required"] = required
    if shape.rest is not True:
        made["additionalProperties"] = shape.rest
    if _dangles(made):
        raise Stays("a reference leads into them")
    return made


def _dangles(schema: Mapping[str, Any]) -> bool:
    """Whether a reference led into what is no longer there."""
    references = (part.get("$ref") for _, part in each(schema))
    return any(isinstance(one, str) and one.startswith("#/") and resolve(one, schema) is None for one in references)


def _told(schema: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each union."""
    own = Shapes(schema).of({word: value for word, value in schema.items() if word not in UNIONS}) or ANY
    for union in Shapes(schema).ways():
        told = list(dict.fromkeys(way for shape in union if (way := _way(shape, own))))
        if len(told) > 1:
            more = f"; and {len(told) - _SPELLED} more" if len(told) > _SPELLED else ""
            numbered = [f"({number}) {way}" for number, way in enumerate(told[:_SPELLED], start=1)]
            yield f"Arguments go together in one of these ways: {'; '.join(numbered)}{more}."


def _tied(schema: Mapping[str, Any], flat: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on all conditions."""
    words = Words(schema, flat)
    told = list(dict.fromkeys(text for one in conditions(schema) if (text := words.told(one))))
    if told:
        more = f"; and {len(told) - _SPELLED} more" if len(told) > _SPELLED else ""
        numbered = [f"({number}) {text}" for number, text in enumerate(told[:_SPELLED], start=1)]
        yield f"Arguments depend on each other: {told[0] if len(told) == 1 else '; '.join(numbered)}{more}."


def _way(shape: Shape, own: Shape) -> str:
    """One alternative: the fixed values that tell it, what it requires, what it has besides."""
    fixed = {name: values[0] for name, part in shape.properties.items() if len(values := _values(part)) == 1}
    needed = [f"`{name}` = {_shown(fixed[name])}" for name in fixed]
    told, known = {*fixed, *own.required}, {*fixed, *shape.required, *own.properties}
    needed += [f"`{name}`" for name in shape.required if name not in told]
    optional = [f"`{name}`" for name in shape.properties if name not in known]
    return ", ".join(needed) + (f"{' ' if needed else ''}[optional: {', '.join(optional)}]" if optional else "")


def _values(part: Any) -> Sequence[Any]:
    return (values_of(part) or ()) if isinstance(part, Mapping) else ()


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), _VALUE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
