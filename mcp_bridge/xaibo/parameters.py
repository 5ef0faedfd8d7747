"""One ToolParameter, of whatever package, as the JSON Schema of one property."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_ALIASES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "None": "null",
}
_KINDS = {**{name: name for name in _TYPES}, **_ALIASES}
_BOOLEANS = {"true": True, "false": False}
_INT64 = range(-(2**63), 2**64)
"""Integers beyond these are no numbers on the wire."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT = _Absent.ABSENT
"""What JSON has no word for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The type of a parameter and its enum: each member as the schema has it, beside as the provider wrote it.

    `kind` is None where the type is unknown, or where the members are not of it.
    """

    kind: str | None
    members: tuple[tuple[Any, Any], ...] = ()

    @property
    def stated(self) -> list[Any]:
        """The members as the schema has them."""
        return [stated for stated, _ in self.members]


def field(thing: Any, name: str) -> Any:
    """A field of an object or a mapping; None where it has none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def kind_of(named: Any) -> str | None:
    """JSON Schema's name of a type; None for one that it does not have."""
    return _KINDS.get(named) if isinstance(named, str) else None


def is_required(parameter: Any) -> bool:
    """Whether a call has to bring it: one with a default can be left out, whatever else is said."""
    return bool(field(parameter, "required")) and field(parameter, "default") is None


def property_of(parameter: Any) -> dict[str, Any]:
    """The JSON Schema of one parameter. An enum or a default that is not JSON is left out."""
    choices = choices_of(parameter)
    made: dict[str, Any] = {} if choices.kind is None else {"type": choices.kind}
    if isinstance(description := field(parameter, "description"), str) and description:
        made["description"] = str(description)
    if choices.kind == "array":
        made["items"] = {"enum": choices.stated} if choices.members else {}
    elif choices.members:
        made["enum"] = choices.stated
    if (default := _default(parameter, choices)) is not ABSENT:
        made["default"] = default
    return made


def choices_of(parameter: Any) -> Choices:
    """The type and the enum of a parameter, so that they can both be met.

    Members of numbers and booleans, which are text, are read as such. Where one is not of the type, there is no type.
    The members of an array's enum are its items'; objects and nulls have none.
    """
    kind = kind_of(field(parameter, "type"))
    given = _enum(parameter)
    if kind in ("object", "null") or not given:
        return Choices(kind=kind)
    read = given if kind in (None, "array") else [member_of(kind, member) for member in given]
    if any(member is ABSENT for member in read):
        kind, read = None, given
    return Choices(kind=kind, members=tuple(_distinct(read, given)))


def member_of(kind: str | None, member: Any) -> Any:
    """A member of an enum as its type has it; ABSENT where it cannot be of that type."""
    if kind == "string":
        return member if isinstance(member, str) else ABSENT
    if isinstance(member, str):
        member = _parsed(member)
    if kind == "boolean":
        return member if isinstance(member, bool) else ABSENT
    if isinstance(member, bool) or not isinstance(member, int | float) or not math.isfinite(member):
        return ABSENT
    if kind == "integer" and isinstance(member, float):
        member = int(member) if member.is_integer() else ABSENT
    return ABSENT if isinstance(member, int) and member not in _INT64 else member


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1, and 1 is 1.0."""
    try:
        return _same(one, other)
    except RecursionError:
        return False


def json_of(value: Any) -> Any:
    """A copy of a value as JSON has it; ABSENT where JSON does not have it."""
    if value is None or type(value) in (str, bool, int):
        return value
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return ABSENT


def _enum(parameter: Any) -> list[Any]:
    """The members as JSON has them; none where one is not JSON, for the others alone would forbid it."""
    given = field(parameter, "enum")
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Set):
        return []
    members = [json_of(member) for member in given]
    return [] if any(member is ABSENT for member in members) else members


def _distinct(read: Sequence[Any], given: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Each member once; of several ways to write one number, the first."""
    seen: set[Any] = set()
    for stated, written in zip(read, given, strict=True):
        if (key := _key(stated)) not in seen:
            seen.add(key)
            yield stated, written


def _key(value: Any) -> Any:
    """What is equal for values that are the same JSON."""
    return (json.dumps(value, sort_keys=True),) if isinstance(value, bool | list | dict) else value


def _parsed(text: str) -> Any:
    """A number or a boolean written as text."""
    try:
        return _BOOLEANS[text.lower()] if text.lower() in _BOOLEANS else json.loads(text)
    except (ValueError, RecursionError):
        return ABSENT


def _default(parameter: Any, choices: Choices) -> Any:
    """The default as the schema has it. One of null is told where it was written, and can be sent."""
    default = field(parameter, "default")
    if default is not None:
        return next((stated for stated, written in choices.members if same(written, default)), json_of(default))
    sendable = choices.kind in (None, "null") and not choices.members and not field(parameter, "required")
    return None if sendable and _is_written(parameter, "default") else ABSENT


def _is_written(parameter: Any, name: str) -> bool:
    written = parameter if isinstance(parameter, Mapping) else getattr(parameter, "model_fields_set", None)
    return isinstance(written, Mapping | Set) and name in written


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
