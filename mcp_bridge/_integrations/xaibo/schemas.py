"""Converts the parameters of Xaibo's tools to JSON Schema, and the arguments of clients to those of the provider.

Xaibo's models allow only texts in an enum, also for a number: `ToolParameter(type="integer", enum=["1", "2"])`. The
schema for clients has the numbers 1 and 2, and a provider gets its texts. Parameters are read
by their fields, so they may be models of any package, or mappings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_ALIASES = ("str", "int", "float", "bool", "dict", "list", "None")
"""Python's names for the same types."""
_TYPE_NAMES = dict(zip((*_TYPES, *_ALIASES), (*_TYPES, *_TYPES), strict=True))
_BOOLEANS = {"true": True, "false": False}
_INT64 = range(-(2**63), 2**64)
"""The integers that JSON on the wire can carry."""


ABSENT: Any = object()
"""Marks the absence of a JSON value. None is JSON, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterChoices:
    """The type and the enum of a parameter.

    Each of the `members` is a pair: the value in the schema, and the provider's text for it. `type_name` is None if the
    type is unknown, or if a member is not of this type.
    """

    type_name: str | None
    members: tuple[tuple[Any, Any], ...] = ()


def build_schema(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Build the JSON Schema of a tool's parameters. It allows further arguments, because providers do.

    Raises TypeError if `parameters` is not a mapping.
    """
    definitions = parameters or {}
    if not isinstance(definitions, Mapping):
        raise TypeError(
            f"parameters: expected a mapping of names to ToolParameters, found {type(definitions).__name__}"
        )
    properties: dict[str, Any] = {}
    required_names = []
    for name, parameter in definitions.items():
        properties[str(name)] = _build_property(parameter)
        # An argument with a default may be left out, whatever `required` is.
        if get_field(parameter, "required") and get_field(parameter, "default") is None:
            required_names.append(str(name))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required_names:
        schema["required"] = required_names
    return schema


def convert_arguments(parameters: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments for a provider. A number or a boolean of an enum becomes the provider's text for it."""
    converted = dict(arguments)
    for name, value in arguments.items():
        parameter = (parameters or {}).get(name)
        if isinstance(value, bool | int | float) and parameter is not None and get_field(parameter, "enum"):
            for member, text in _read_choices(parameter).members:
                if _is_same(member, value):
                    converted[name] = text
                    break
    return converted


def get_field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _build_property(parameter: Any) -> dict[str, Any]:
    """Build the JSON Schema of one parameter, without an enum or default that is not JSON."""
    choices = _read_choices(parameter)
    schema: dict[str, Any] = {}
    if choices.type_name is not None:
        schema["type"] = choices.type_name
    description = get_field(parameter, "description")
    if isinstance(description, str) and description:
        schema["description"] = str(description)
    # The enum of an array applies to its items.
    constrained_schema = schema
    if choices.type_name == "array":
        constrained_schema = schema["items"] = {}
    if choices.members:
        constrained_schema["enum"] = [value for value, _ in choices.members]
    default = _read_default(parameter, choices)
    if default is not ABSENT:
        schema["default"] = default
    return schema


def _read_choices(parameter: Any) -> ParameterChoices:
    """Read the type and the enum so that a value can satisfy both.

    The texts for numbers and booleans are parsed. If a member is not of the type, the type is left out. An enum of
    objects or null is left out.
    """
    name = get_field(parameter, "type")
    type_name = _TYPE_NAMES.get(name) if isinstance(name, str) else None
    texts = _read_enum(parameter)
    if type_name in ("object", "null") or not texts:
        return ParameterChoices(type_name=type_name)
    members = texts
    if type_name not in (None, "array"):
        members = [_parse_member(type_name, text) for text in texts]
        if any(member is ABSENT for member in members):
            type_name, members = None, texts
    return ParameterChoices(type_name=type_name, members=tuple(_join_members(members, texts)))


def _parse_member(type_name: str | None, member: Any) -> Any:
    """Return a member of an enum as a value of its type, or ABSENT if this is impossible."""
    if type_name == "string":
        return member if isinstance(member, str) else ABSENT
    value = member
    if isinstance(member, str):
        try:
            # "True" is no JSON, but Python's text of a boolean.
            value = _BOOLEANS[member.lower()] if member.lower() in _BOOLEANS else json.loads(member)
        except (ValueError, RecursionError):
            return ABSENT
    if type_name == "boolean":
        return value if isinstance(value, bool) else ABSENT
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return ABSENT
    if type_name == "integer" and isinstance(value, float):
        if not value.is_integer():
            return ABSENT
        value = int(value)
    if isinstance(value, int) and value not in _INT64:
        return ABSENT
    return value


def _copy_json(value: Any) -> Any:
    """Copy a value as JSON. Returns ABSENT if it is not JSON."""
    if value is None or type(value) in (str, bool, int):
        return value
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return ABSENT


def _read_enum(parameter: Any) -> list[Any]:
    """Return the members as JSON.

    If one of them is not JSON, return none, because an enum of the others would forbid this member.
    """
    enum = get_field(parameter, "enum")
    if isinstance(enum, str | bytes) or not isinstance(enum, Sequence | Set):
        return []
    members = [_copy_json(member) for member in enum]
    return [] if any(member is ABSENT for member in members) else members


def _join_members(members: Sequence[Any], texts: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair each distinct member with its text. Of several texts for one number, the first is used."""
    used_members: set[Any] = set()
    for member, text in zip(members, texts, strict=True):
        key = member
        # Lists cannot be in a set, and True would be the same as 1.
        if isinstance(member, bool | list | dict):
            key = (json.dumps(member, sort_keys=True),)
        if key not in used_members:
            used_members.add(key)
            yield member, text


def _read_default(parameter: Any, choices: ParameterChoices) -> Any:
    """Return the default for the schema, or ABSENT.

    The field `default` of a parameter without a default is None. So None is a default only if the field was set, and if
    null is a valid argument.
    """
    default = get_field(parameter, "default")
    if default is not None:
        for member, text in choices.members:
            if _is_same(text, default):
                return member
        return _copy_json(default)
    allows_null = choices.type_name in (None, "null") and not choices.members and not get_field(parameter, "required")
    fields = parameter if isinstance(parameter, Mapping) else getattr(parameter, "model_fields_set", ())
    if allows_null and isinstance(fields, Mapping | Set) and "default" in fields:
        return None
    return ABSENT


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    try:
        return bool(left == right)
    except RecursionError:
        return False
