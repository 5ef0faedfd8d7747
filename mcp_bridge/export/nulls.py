"""Nulls of strict mode, where every property is required: those that stand for "left out" are left out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_bridge.schema.references import resolve

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_TOGETHER = (("anyOf", any), ("oneOf", any), ("allOf", all))


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema names; empty where it names none."""
    said = schema.get("type")
    return [said] if isinstance(said, str) else [one for one in said or () if isinstance(one, str)]


class Nulls:
    """What null means in a schema; what references lead to is looked at once, however many there are."""

    __slots__ = ("_known", "_root")

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, bool] = {}

    def fit(self, schema: Any) -> bool:
        """Whether null fits a schema of its own account; a reference that leads to itself takes nothing."""
        if not isinstance(schema, Mapping):
            return schema is not False
        if isinstance(reference := schema.get("$ref"), str) and not self._followed(reference):
            return False
        if "type" in schema and "null" not in types_of(schema):
            return False
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and None not in values:
            return False
        return all(
            together(map(self.fit, schema[word])) for word, together in _TOGETHER if isinstance(schema.get(word), list)
        )

    def _followed(self, reference: str) -> bool:
        if reference not in self._known:
            self._known[reference] = False
            self._known[reference] = self.fit(resolve(reference, self._root))
        return self._known[reference]


def without_nulls(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a strict tool as its own schema has them: null is left out where that does not take it."""
    made: dict[str, Any] = _Meaning(schema).of(dict(arguments), schema)
    return made


class _Meaning:
    """One look at the arguments of a call. A value is held against a schema once, whatever leads there."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nulls = Nulls(root)
        self._fit: dict[tuple[int, int], bool] = {}

    def of(self, value: Any, schema: Any) -> Any:
        """The value without the nulls that stand for nothing."""
        if not isinstance(value, list | dict):
            return value
        branches = list(_branches(schema, self._root, set()))
        branch = next((one for one in branches if len(branches) == 1 or self._fits(value, one)), None)
        if branch is None:
            return value
        if isinstance(value, list):
            return [self.of(item, branch.get("items", {})) for item in value]
        parts, required = _object(branch)
        return {
            name: self.of(item, parts.get(name, {}))
            for name, item in value.items()
            if not (item is None and name in parts and name not in required and not self._nulls.fit(parts[name]))
        }

    def _fits(self, value: Any, branch: Mapping[str, Any]) -> bool:
        """Whether a value is of this branch's strict form, as far as types, names and fixed values tell."""
        if not isinstance(value, list | dict):
            return _is_of(value, branch)
        key = (id(value), id(branch))
        if key not in self._fit:
            self._fit[key] = _is_of(value, branch) and self._parts_fit(value, branch)
        return self._fit[key]

    def _parts_fit(self, value: Any, branch: Mapping[str, Any]) -> bool:
        if isinstance(value, list):
            return all(self._fits_any(item, branch.get("items", {})) for item in value)
        parts, required = _object(branch)
        return value.keys() == parts.keys() and all(
            self._fits_any(item, parts[name]) or (item is None and name not in required) for name, item in value.items()
        )

    def _fits_any(self, value: Any, schema: Any) -> bool:
        return any(self._fits(value, branch) for branch in _branches(schema, self._root, set()))


def _is_of(value: Any, branch: Mapping[str, Any]) -> bool:
    """Whether a value is of a type that the schema names, and one of its values where it names them."""
    kinds = [kind for name in types_of(branch) for kind in _TYPES.get(name, ())]
    if kinds and (not isinstance(value, tuple(kinds)) or (isinstance(value, bool) and bool not in kinds)):
        return False
    values = [branch["const"]] if "const" in branch else branch.get("enum")
    return values is None or value in values


def _object(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    return schema.get("properties") or {}, schema.get("required") or []


def _branches(schema: Any, root: Any, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """What a schema comes to where references and alternatives are followed, as strict schemas have them."""
    if not isinstance(schema, Mapping):
        return
    parts = next((schema[word] for word, _ in _TOGETHER if isinstance(schema.get(word), list)), None)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in seen:
            seen.add(reference)
            yield from _branches(resolve(reference, root), root, seen)
    elif parts is not None:
        for part in parts:
            yield from _branches(part, root, seen)
    else:
        yield schema
