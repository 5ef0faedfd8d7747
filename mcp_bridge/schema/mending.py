"""Makes a schema that no validator accepts into the nearest one that it does, and says what was left out.

Strangers' schemas have unknown type names, unresolvable references, foreign dialects and patterns with
look-around. None of that may keep a tool from being listed, so the smallest part that cannot be judged is
taken out: one keyword of one subschema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_KNOWN_TYPES = frozenset({"string", "boolean", "integer", "number", "object", "array", "null"})
_MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset(
    {
        "items", "additionalProperties", "contains", "not", "if", "then", "else",
        "propertyNames", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip

MAX_DEPTH = 64
"""How deep a schema is read; deeper parts accept anything."""

MAX_NODES = 10_000
"""How many keywords are read; a schema that contains itself ends here."""

Judge = Callable[[Mapping[str, Any]], bool]


def mend(schema: Mapping[str, Any], judge: Judge) -> tuple[dict[str, Any], list[str]]:
    """A copy of `schema` that `judge` accepts, and the paths of the keywords left out. Never raises."""
    work = _Work(judge)
    mended = _mend(schema, work, "#", 0)
    if not judge(mended):
        _drop_references(mended, work)
    return mended, work.dropped


@dataclass
class _Work:
    """What one mending has at hand: who judges, what was left out, how many more nodes are read."""

    judge: Judge
    dropped: list[str] = field(default_factory=list)
    nodes: int = MAX_NODES


def _mend(schema: Mapping[str, Any], work: _Work, path: str, depth: int) -> dict[str, Any]:
    mended: dict[str, Any] = {}
    for keyword, value in schema.items():
        place = f"{path}/{keyword}"
        work.nodes -= 1
        if not isinstance(keyword, str) or depth > MAX_DEPTH or work.nodes < 0:
            work.dropped.append(place)
            continue
        kept = _keyword(keyword, value, work, place, depth)
        if keyword == "$ref" or (kept is not None and work.judge(_alone(keyword, kept))):
            mended[keyword] = kept
        else:
            work.dropped.append(place)
    return mended


def _alone(keyword: str, value: Any) -> dict[str, Any]:
    """The keyword as a schema of its own, its subschemas emptied: they were judged already."""
    if keyword in _MAPS_OF_SCHEMAS:
        return {keyword: dict.fromkeys(value, True)}
    if keyword in _LISTS_OF_SCHEMAS:
        return {keyword: [True] * len(value)}
    if keyword in _SCHEMAS:
        return {keyword: True}
    return {keyword: value}


def _keyword(keyword: str, value: Any, work: _Work, place: str, depth: int) -> Any:
    """The mended value of one keyword, or None when nothing of it can stay."""

    def inner(part: Any, at: str) -> Any:
        if isinstance(part, Mapping):
            return _mend(part, work, at, depth + 1)
        return part if isinstance(part, bool) else True

    if keyword == "type":
        return _types(value)
    if keyword in _MAPS_OF_SCHEMAS:
        if not isinstance(value, Mapping):
            return None
        return {name: inner(part, f"{place}/{name}") for name, part in value.items() if isinstance(name, str)}
    if keyword in _LISTS_OF_SCHEMAS:
        if not isinstance(value, list | tuple):
            return None
        return [inner(part, f"{place}/{index}") for index, part in enumerate(value)]
    if keyword in _SCHEMAS:
        return inner(value, place)
    return value


def _types(value: Any) -> Any:
    """Known names only, as the tool_use API has it: one known name among unknown ones still counts."""
    names = value if isinstance(value, list | tuple) else [value]
    known = [name for name in names if isinstance(name, str) and name in _KNOWN_TYPES]
    return list(dict.fromkeys(known)) or None


def _drop_references(schema: dict[str, Any], work: _Work) -> None:
    """Take out references, which can only be judged in the whole, until the whole is understood."""

    def visit(node: Any, at: str) -> None:
        if isinstance(node, dict):
            for keyword in ("$ref", "$dynamicRef", "$schema", "$id"):
                if keyword in node and not work.judge(schema):
                    del node[keyword]
                    work.dropped.append(f"{at}/{keyword}")
            for name, value in list(node.items()):
                visit(value, f"{at}/{name}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                visit(value, f"{at}/{index}")

    visit(schema, "#")
