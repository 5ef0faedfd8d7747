"""Combines two or more schemas to one: for values that fit all of them, or for values that fit any of them."""

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
"""Keywords whose meaning does not depend on their neighbours."""
NOTHING: Mapping[str, Any] = {"not": {}}
"""A schema that rejects every value."""
_NOTES = ANNOTATIONS | {"$schema", "$id"}
"""Keywords without an influence on validity."""


class CannotRewrite(Exception):
    """A schema, or a part of it, cannot be rewritten, so clients get the original. The text is the reason."""


class Budget:
    """Limits the size of a rewritten schema, because references and alternatives multiply it."""

    def __init__(self, amount: int, reason: str) -> None:
        self._left = amount
        self._reason = reason

    def spend(self, amount: int = 1) -> None:
        """Take a part of the budget. Raises CannotRewrite with `reason` when nothing is left."""
        self._left -= amount
        if self._left < 0:
            raise CannotRewrite(self._reason)


def select_constraints(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords with an influence on validity, without annotations and extensions (`x-...`)."""
    return {keyword: value for keyword, value in schema.items() if not _is_note(keyword)}


def select_notes(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return all other keywords."""
    return {keyword: value for keyword, value in schema.items() if _is_note(keyword)}


def _is_note(keyword: str) -> bool:
    return keyword in _NOTES or keyword.startswith("x-")


def merge_schemas(first: Any, second: Any) -> dict[str, Any] | None:
    """Return one flat schema for values that fit both, or None if there is none.

    The annotations of the first take precedence.
    """
    first = _to_mapping(first)
    second = _to_mapping(second)
    if first is None or second is None:
        return None
    constraints = select_constraints(first)
    second_constraints = select_constraints(second)
    # With other keywords on both sides, such as `additionalProperties`, the merged keywords would affect each other.
    if not _INDEPENDENT.issuperset(constraints) and not _INDEPENDENT.issuperset(second_constraints):
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
    """Return a schema with `anyOf` in place of `oneOf`.

    If alternatives accept more after a change, a value may fit two of them, and `oneOf` would reject it.
    """
    copy = dict(schema)
    if "oneOf" in copy:
        alternatives = copy.pop("oneOf")
        if "anyOf" in copy:
            copy["allOf"] = [*copy.get("allOf", ()), {"anyOf": alternatives}]
        else:
            copy["anyOf"] = alternatives
    return copy


def merge_alternatives(alternatives: Iterable[Any], budget: Budget) -> dict[str, Any]:
    """Return a schema for values that fit any alternative.

    Equal alternatives are listed once, and lists of values become one `enum`. Raises CannotRewrite when the budget is
    exhausted.
    """
    distinct: dict[str, dict[str, Any]] = {}
    # The same object often occurs several times, and its JSON is the most expensive part.
    for schema in {id(schema): schema for schema in alternatives}.values():
        alternative = _to_mapping(schema)
        if alternative is None or alternative == NOTHING:
            continue
        constraints = select_constraints(alternative)
        if not constraints:
            # This alternative accepts everything.
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
    """Return one `enum` for schemas with the same keywords beside `const` or `enum`, or None for other schemas."""
    union: dict[Hashable, Any] = {}
    common: dict[str, Any] | None = None
    for schema in schemas:
        values = list_values(schema)
        if values is None:
            return None
        for value in values:
            key: Hashable
            if isinstance(value, Mapping | list):
                key = json.dumps(value, sort_keys=True)
            else:
                # In JSON Schema 1 and 1.0 are equal, but not 1 and true, which are equal in Python.
                key = (isinstance(value, bool), value)
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
