"""Schemas put together: one for what must fit both, one for what may fit either."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from mcp_bridge.dialects.budget import Budget
from mcp_bridge.schema.keywords import ANNOTATIONS

_INDEPENDENT = frozenset(
    {
        "type", "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties",
        "maxProperties", "required",
    }
)  # fmt: skip
"""Keywords that mean the same whatever stands beside them."""
NOTHING: Mapping[str, Any] = {"not": {}}
"""What no value fits."""
_NOTES = ANNOTATIONS | {"$schema", "$id"}


def constraints(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What of a schema decides about what fits; extensions (`x-...`) do not."""
    return {word: value for word, value in schema.items() if word not in _NOTES and not word.startswith("x-")}


def notes_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of it."""
    return {word: value for word, value in schema.items() if word in _NOTES or word.startswith("x-")}


def merged(first: Any, second: Any) -> dict[str, Any] | None:
    """One flat schema for what must fit both, notes of the first preferred; None where they cannot be put together."""
    one, other = _as_mapping(first), _as_mapping(second)
    if one is None or other is None:
        return None
    mine, theirs = constraints(one), constraints(other)
    if not (_INDEPENDENT.issuperset(mine) or _INDEPENDENT.issuperset(theirs)):
        return None
    if any(mine[word] != theirs[word] for word in mine.keys() & theirs.keys() - {"required"}):
        return None
    required = [*mine.get("required", ()), *theirs.get("required", ())]
    rest = {"required": list(dict.fromkeys(required))} if required else {}
    return {**other, **one, **rest}


def either(alternatives: Iterable[Any], budget: Budget) -> dict[str, Any]:
    """A schema for what fits any of these; those that say the same stand in it once, lists of values become one.

    Raises Stays when the budget does not suffice.
    """
    known: dict[str, dict[str, Any]] = {}
    for one in {id(one): one for one in alternatives}.values():
        alternative = _as_mapping(one)
        if alternative is None or alternative == NOTHING:
            continue
        if not (said := constraints(alternative)):
            return notes_of(alternative)
        text = json.dumps(said, sort_keys=True)
        budget.spend(1 + len(text) // 16)
        known.setdefault(text, alternative)
    schemas = list(known.values())
    if not schemas:
        return dict(NOTHING)
    return schemas[0] if len(schemas) == 1 else _listed(schemas) or {"anyOf": schemas}


def values_of(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """The values that a schema names, if it does."""
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def _listed(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """One `enum` for schemas that differ in their values alone."""
    rests = [
        {word: rest for word, rest in constraints(one).items() if word not in ("const", "enum")} for one in schemas
    ]
    lists = [values_of(one) for one in schemas]
    if any(rest != rests[0] for rest in rests):
        return None
    together: dict[Hashable, Any] = {}
    for values in lists:
        if values is None:
            return None
        for value in values:
            together.setdefault(_same(value), value)
    notes = notes_of(schemas[0]) if all(notes_of(one) == notes_of(schemas[0]) for one in schemas) else {}
    return {**rests[0], "enum": list(together.values()), **notes}


def _same(value: Any) -> Hashable:
    """What values have in common that are the same: 1 and 1.0, and not 1 and true."""
    if isinstance(value, Mapping | list):
        return json.dumps(value, sort_keys=True)
    return isinstance(value, bool), value


def _as_mapping(schema: Any) -> dict[str, Any] | None:
    """A schema that is no truth value; None for the one that nothing fits."""
    if isinstance(schema, Mapping):
        return dict(schema)
    return None if schema is False else {}
