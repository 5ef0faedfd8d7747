"""Nulls in the arguments of strict tools, whose properties are all required: removes those that mean "left out"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcp_bridge._json_schema.keywords import list_values
from mcp_bridge._json_schema.references import resolve_pointer

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float), "object": (dict,),
    "array": (list,), "null": (type(None),),
}  # fmt: skip
_COMBINATORS = (("anyOf", any), ("oneOf", any), ("allOf", all))


def list_types(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema names; empty if it names none."""
    types = schema.get("type")
    return [types] if isinstance(types, str) else [name for name in types or () if isinstance(name, str)]


class NullCheck:
    """Finds which parts of a schema accept null. The target of a reference is checked once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, bool] = {}

    def accepts(self, schema: Any) -> bool:
        """Whether null fits a part of the schema; a reference that leads to itself accepts nothing."""
        if not isinstance(schema, Mapping):
            return schema is not False
        if isinstance(reference := schema.get("$ref"), str) and not self._accepts_target(reference):
            return False
        if "type" in schema and "null" not in list_types(schema):
            return False
        if (values := list_values(schema)) is not None and None not in values:
            return False
        return all(
            combine(map(self.accepts, schema[keyword]))
            for keyword, combine in _COMBINATORS
            if isinstance(schema.get(keyword), list)
        )

    def _accepts_target(self, reference: str) -> bool:
        if reference not in self._known:
            self._known[reference] = False
            self._known[reference] = self.accepts(resolve_pointer(reference, self._root))
        return self._known[reference]


def remove_nulls(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a strict tool without the nulls that its own schema does not accept."""
    return cast("dict[str, Any]", _NullRemoval(schema).remove_nulls(dict(arguments), schema))


class _NullRemoval:
    """One walk over the arguments of a call. Each value is compared with each schema only once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nulls = NullCheck(root)
        self._fit: dict[tuple[int, int], bool] = {}

    def remove_nulls(self, value: Any, schema: Any) -> Any:
        if not isinstance(value, list | dict):
            return value
        branches = list(_list_branches(schema, self._root, set()))
        branch = next((one for one in branches if len(branches) == 1 or self._is_strict_form(value, one)), None)
        if branch is None:
            return value
        if isinstance(value, list):
            return [self.remove_nulls(item, branch.get("items", {})) for item in value]
        parts, required = _read_object(branch)
        return {
            name: self.remove_nulls(item, parts.get(name, {}))
            for name, item in value.items()
            if not (item is None and name in parts and name not in required and not self._nulls.accepts(parts[name]))
        }

    def _is_strict_form(self, value: Any, branch: Mapping[str, Any]) -> bool:
        """Whether a value fits the strict form of a branch, judged by types, names and fixed values."""
        if not isinstance(value, list | dict):
            return _has_type(value, branch)
        key = (id(value), id(branch))
        if key not in self._fit:
            self._fit[key] = _has_type(value, branch) and self._has_fitting_parts(value, branch)
        return self._fit[key]

    def _has_fitting_parts(self, value: Any, branch: Mapping[str, Any]) -> bool:
        if isinstance(value, list):
            return all(self._has_fitting_branch(item, branch.get("items", {})) for item in value)
        parts, required = _read_object(branch)
        return value.keys() == parts.keys() and all(
            self._has_fitting_branch(item, parts[name]) or (item is None and name not in required)
            for name, item in value.items()
        )

    def _has_fitting_branch(self, value: Any, schema: Any) -> bool:
        return any(self._is_strict_form(value, branch) for branch in _list_branches(schema, self._root, set()))


def _has_type(value: Any, branch: Mapping[str, Any]) -> bool:
    """Whether a value has one of the types, and is one of the values, that a schema names."""
    types = [kind for name in list_types(branch) for kind in _TYPES.get(name, ())]
    if types and (not isinstance(value, tuple(types)) or (isinstance(value, bool) and bool not in types)):
        return False
    values = [branch["const"]] if "const" in branch else branch.get("enum")
    return values is None or value in values


def _read_object(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    return schema.get("properties") or {}, schema.get("required") or []


def _list_branches(schema: Any, root: Any, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """The schemas that references and alternatives of a strict schema lead to, or the schema itself."""
    if not isinstance(schema, Mapping):
        return
    parts = next((schema[word] for word, _ in _COMBINATORS if isinstance(schema.get(word), list)), None)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in seen:
            seen.add(reference)
            yield from _list_branches(resolve_pointer(reference, root), root, seen)
    elif parts is not None:
        for part in parts:
            yield from _list_branches(part, root, seen)
    else:
        yield schema
