"""Combines schemas: one for what must fit both, one for what may fit either."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from mcp_bridge._json_schema.walking import ANNOTATIONS, list_values

_INDEPENDENT = frozenset(
    {
        "type", "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties",
        "maxProperties", "required",
    }
)  # fmt: skip
"""Keywords whose meaning does not depend on the keywords beside them."""
NOTHING: Mapping[str, Any] = {"not": {}}
"""The schema that no value fits."""
_NOTES = ANNOTATIONS | {"$schema", "$id"}


class CannotRewrite(Exception):
    """Why a schema, or a part of it, is listed as its author wrote it."""


class Budget:
    """Limits the size of a rewritten schema, because references and alternatives multiply what the author wrote."""

    def __init__(self, amount: int, reason: str) -> None:
        self._left = amount
        self._reason = reason

    def spend(self, amount: int = 1) -> None:
        """Take a part of the budget. Raises CannotRewrite, with `reason`, when it is exhausted."""
        self._left -= amount
        if self._left < 0:
            raise CannotRewrite(self._reason)


def select_constraints(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that decide which values fit; extensions (`x-...`) do not."""
    return {keyword: value for keyword, value in schema.items() if not _is_note(keyword)}


def select_notes(schema: Mapping[str, Any]) -> dict[str, Any]:
    """All other keywords."""
    return {keyword: value for keyword, value in schema.items() if _is_note(keyword)}


def _is_note(keyword: str) -> bool:
    return keyword in _NOTES or keyword.startswith("x-")


def merge_schemas(first: Any, second: Any) -> dict[str, Any] | None:
    """One flat schema for what must fit both, with the first one's notes preferred, or None if there is none."""
    one, other = _to_mapping(first), _to_mapping(second)
    if one is None or other is None:
        return None
    mine, theirs = select_constraints(one), select_constraints(other)
    if not (_INDEPENDENT.issuperset(mine) or _INDEPENDENT.issuperset(theirs)):
        return None
    if any(mine[keyword] != theirs[keyword] for keyword in mine.keys() & theirs.keys() - {"required"}):
        return None
    required = [*mine.get("required", ()), *theirs.get("required", ())]
    rest = {"required": list(dict.fromkeys(required))} if required else {}
    return {**other, **one, **rest}


def relax_one_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with `anyOf` in place of `oneOf`, which would reject more once its alternatives accept more."""
    relaxed = dict(schema)
    if "oneOf" in relaxed:
        union = {"anyOf": relaxed.pop("oneOf")}
        relaxed |= union if "anyOf" not in relaxed else {"allOf": [*relaxed.get("allOf", ()), union]}
    return relaxed


def merge_alternatives(alternatives: Iterable[Any], budget: Budget) -> dict[str, Any]:
    """A schema for what fits any alternative. Equal alternatives are listed once, lists of values become one `enum`.

    Raises CannotRewrite when the budget is exhausted.
    """
    known: dict[str, dict[str, Any]] = {}
    for one in {id(one): one for one in alternatives}.values():
        alternative = _to_mapping(one)
        if alternative is None or alternative == NOTHING:
            continue
        if not (constraints := select_constraints(alternative)):
            return select_notes(alternative)
        text = json.dumps(constraints, sort_keys=True)
        budget.spend(1 + len(text) // 16)
        known.setdefault(text, alternative)
    schemas = list(known.values())
    if not schemas:
        return dict(NOTHING)
    return schemas[0] if len(schemas) == 1 else _merge_values(schemas) or {"anyOf": schemas}


def _merge_values(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """One `enum` for schemas that differ only in their values."""
    rests = [
        {word: rest for word, rest in select_constraints(one).items() if word not in ("const", "enum")}
        for one in schemas
    ]
    if any(rest != rests[0] for rest in rests):
        return None
    united: dict[Hashable, Any] = {}
    for values in map(list_values, schemas):
        if values is None:
            return None
        for value in values:
            united.setdefault(_to_key(value), value)
    notes = select_notes(schemas[0])
    notes = notes if all(select_notes(one) == notes for one in schemas) else {}
    return {**rests[0], "enum": list(united.values()), **notes}


def _to_key(value: Any) -> Hashable:
    """Equal for values that JSON takes for equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, Mapping | list):
        return json.dumps(value, sort_keys=True)
    return isinstance(value, bool), value


def _to_mapping(schema: Any) -> dict[str, Any] | None:
    """A boolean schema as a mapping; None for the one that no value fits."""
    if isinstance(schema, Mapping):
        return dict(schema)
    return None if schema is False else {}
