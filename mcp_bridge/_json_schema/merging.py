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
"""Keywords with a meaning that does not depend on their neighbours."""
NOTHING: Mapping[str, Any] = {"not": {}}
"""A schema without values."""
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
    """Return the keywords that decide which values fit; extensions (`x-...`) do not."""
    return {keyword: value for keyword, value in schema.items() if not _is_note(keyword)}


def select_notes(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return all other keywords."""
    return {keyword: value for keyword, value in schema.items() if _is_note(keyword)}


def _is_note(keyword: str) -> bool:
    return keyword in _NOTES or keyword.startswith("x-")


def merge_schemas(first: Any, second: Any) -> dict[str, Any] | None:
    """Return one flat schema for what fits both, or None if there is none. The notes of the first take precedence."""
    first, second = _to_mapping(first), _to_mapping(second)
    if first is None or second is None:
        return None
    constraints, second_constraints = select_constraints(first), select_constraints(second)
    if not (_INDEPENDENT.issuperset(constraints) or _INDEPENDENT.issuperset(second_constraints)):
        return None
    for keyword in constraints.keys() & second_constraints.keys() - {"required"}:
        if constraints[keyword] != second_constraints[keyword]:
            return None
    schema = {**second, **first}
    required = dict.fromkeys([*constraints.get("required", ()), *second_constraints.get("required", ())])
    if required:
        schema["required"] = list(required)
    return schema


def relax_one_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with `anyOf` in place of `oneOf`, which would reject more once its alternatives accept more."""
    copy = dict(schema)
    if "oneOf" in copy:
        alternatives = copy.pop("oneOf")
        if "anyOf" in copy:
            copy["allOf"] = [*copy.get("allOf", ()), {"anyOf": alternatives}]
        else:
            copy["anyOf"] = alternatives
    return copy


def merge_alternatives(alternatives: Iterable[Any], budget: Budget) -> dict[str, Any]:
    """Return a schema for what fits any alternative. Equal ones are listed once, lists of values become one `enum`.

    Raises CannotRewrite when the budget is exhausted.
    """
    distinct: dict[str, dict[str, Any]] = {}
    for schema in {id(schema): schema for schema in alternatives}.values():
        alternative = _to_mapping(schema)
        if alternative is None or alternative == NOTHING:
            continue
        constraints = select_constraints(alternative)
        if not constraints:
            return select_notes(alternative)
        text = json.dumps(constraints, sort_keys=True)
        budget.spend(1 + len(text) // 16)
        distinct.setdefault(text, alternative)
    schemas = list(distinct.values())
    if not schemas:
        return dict(NOTHING)
    if len(schemas) == 1:
        return schemas[0]
    return _merge_values(schemas) or {"anyOf": schemas}


def _merge_values(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return one `enum` for schemas that differ only in their values, or None for others."""
    union: dict[Hashable, Any] = {}
    common: dict[str, Any] | None = None
    for schema in schemas:
        values = list_values(schema)
        if values is None:
            return None
        for value in values:
            # JSON takes 1 and 1.0 for equal, but not 1 and true.
            is_nested = isinstance(value, Mapping | list)
            key = json.dumps(value, sort_keys=True) if is_nested else (isinstance(value, bool), value)
            union.setdefault(key, value)
        constraints = select_constraints(schema)
        constraints.pop("const", None)
        constraints.pop("enum", None)
        if common is not None and constraints != common:
            return None
        common = constraints
    notes = select_notes(schemas[0])
    if any(select_notes(schema) != notes for schema in schemas):
        notes = {}
    return {**(common or {}), "enum": list(union.values()), **notes}


def _to_mapping(schema: Any) -> dict[str, Any] | None:
    """Return a boolean schema as a mapping, or None for `false`."""
    if isinstance(schema, Mapping):
        return dict(schema)
    return None if schema is False else {}
