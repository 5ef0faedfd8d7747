"""Whether alternatives exclude each other, so that "exactly one" says no more than "any"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from mcp_bridge.export.nulls import types_of
from mcp_bridge.schema.references import resolve

_HOPS = 8


def apart(parts: Sequence[Any], root: Any) -> bool:
    """Whether no value can fit two of these: by their types, or by a required property with other values in each."""
    known = [_followed(part, root) for part in parts]
    return all(_exclude(one, other, root) for one, other in combinations(known, 2))


def _followed(part: Any, root: Any) -> Mapping[str, Any]:
    for _ in range(_HOPS):
        if not isinstance(part, Mapping) or not isinstance(part.get("$ref"), str):
            break
        part = resolve(part["$ref"], root)
    return part if isinstance(part, Mapping) else {}


def _exclude(one: Mapping[str, Any], other: Mapping[str, Any], root: Any) -> bool:
    kinds, others = set(types_of(one)), set(types_of(other))
    if not kinds or not others:
        return False
    if "number" in kinds | others:
        kinds, others = ({"number", *known} if "integer" in known else known for known in (kinds, others))
    shared = kinds & others
    if not shared:
        return True
    return shared == {"object"} and any(_tells_apart(name, one, other, root) for name in _required(one, other))


def _required(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    return (name for name in one.get("required") or () if name in (other.get("required") or ()))


def _tells_apart(name: str, one: Mapping[str, Any], other: Mapping[str, Any], root: Any) -> bool:
    values, others = (_values(_followed((part.get("properties") or {}).get(name), root)) for part in (one, other))
    return bool(values) and bool(others) and not any(value in others for value in values)


def _values(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else []
