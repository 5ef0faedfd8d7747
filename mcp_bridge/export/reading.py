"""Parts of a model's answer, whether it is plain data or an object of the vendor's SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.errors import InvalidArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A call as it stands in a model's answer: `arguments` is an object or the text of one, `id` may be missing."""

    id: str | None
    name: str
    arguments: Any


def field(value: Any, *names: str) -> Any:
    """The first of these fields that there is, of a mapping or an object; None where there is none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def inside(response: Any, *path: str) -> list[Any]:
    """The list at the end of `path`, of whatever part of it is given; the first of each list on the way.

    A whole response, the message in it, the list and one item of the list will all do.
    """
    value = response
    for name in path:
        if (found := field(value, name)) is not None:
            several = name != path[-1] and isinstance(found, list | tuple)
            value = next(iter(found), None) if several else found
    return list(value) if isinstance(value, list | tuple) else [value]


def as_arguments(given: Any, tool: str) -> dict[str, Any]:
    """The arguments of a call as an object; none at all are an empty one.

    Raises InvalidArguments for what is no JSON, and for JSON that is no object.
    """
    value = _parsed(given, tool) if isinstance(given, str | bytes) else given
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    raise InvalidArguments([f"$: expected an object, got {type(value).__name__}"], tool=tool)


def _parsed(text: str | bytes, tool: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArguments([f"$: the arguments are not JSON: {why}"], tool=tool) from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")
