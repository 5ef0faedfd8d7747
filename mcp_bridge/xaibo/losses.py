"""A JSON Schema as ToolParameters, which can say less: what is lost is reported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mcp_bridge.schema.references import resolve
from mcp_bridge.xaibo.parameters import ABSENT, is_required, json_of, kind_of, property_of, same

if TYPE_CHECKING:
    from mcp_bridge.xaibo.models import ToolParameter

_ROOT_WORDS = ("type", "properties", "required")
_ANY = "any"
"""The type of a parameter that takes whatever there is."""


def parameters_of(schema: Any) -> tuple[dict[str, ToolParameter], list[str]]:
    """The parameters that a schema describes, and a line with its JSON path for each keyword that they cannot say.

    The order is the schema's. Never raises: a schema that is none has no parameters.
    """
    if not isinstance(schema, Mapping):
        return {}, [] if schema is True else [f"$: a schema is an object, found {type(schema).__name__}"]
    losses = [_lost(f"$.{word}") for word in schema if word not in _ROOT_WORDS]
    if schema.get("type", "object") != "object":
        losses.append("$.type: parameters are the properties of an object")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping):
        losses.append("$.properties: not an object")
        properties = {}
    if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        losses.append("$.required: not a list of names")
        required = []
    parts = {str(name): part for name, part in properties.items()}
    parts |= {name: True for name in required if name not in parts}
    made = {name: _parameter(part, schema, required=name in required) for name, part in parts.items()}
    for name, part in parts.items():
        losses += _losses_of(name, part, made[name])
    return made, losses


def _parameter(part: Any, root: Any, *, required: bool) -> ToolParameter:
    """The parameter that says most of one property's schema."""
    from mcp_bridge.xaibo.models import ToolParameter

    if not isinstance(part, Mapping):
        return ToolParameter(type=_ANY, required=required)
    given: dict[str, Any] = {"type": _kind(part, root) or _ANY, "required": required}
    if isinstance(description := part.get("description"), str):
        given["description"] = description
    if "default" in part and (default := json_of(part["default"])) is not ABSENT:
        given["default"] = default
    if enum := _enum(part, given["type"]):
        given["enum"] = enum
    return ToolParameter(**given)


def _losses_of(name: str, part: Any, parameter: ToolParameter) -> Iterable[str]:
    """What a property's schema says and its parameter does not."""
    path = f"$.properties.{name}"
    if not isinstance(part, Mapping):
        if part is not True:
            yield _lost(path)
        return
    said = property_of(parameter)
    for word, value in part.items():
        if not (word in said and same(said[word], _usual(word, value))):
            yield _lost(f"{path}.{word}")
    if parameter.required and not is_required(parameter):
        yield f"$.required: '{name}' has a default, which makes it optional"


def _lost(path: str) -> str:
    return f"{path}: a ToolParameter cannot say this"


def _usual(word: str, value: Any) -> Any:
    return {} if word == "items" and value is True else value


def _kind(part: Mapping[str, Any], root: Any) -> str | None:
    """The one type that a schema takes, null apart."""
    if "type" not in part:
        return _kind_elsewhere(part, root)
    kinds = part["type"] if isinstance(part["type"], list | tuple) else [part["type"]]
    return _only(kind_of(kind) for kind in kinds)


def _kind_elsewhere(part: Mapping[str, Any], root: Any) -> str | None:
    """The type that references and alternatives lead to; each is followed once."""
    if isinstance(reference := part.get("$ref"), str):
        target = resolve(reference, root)
        return kind_of(target.get("type")) if isinstance(target, Mapping) else None
    branches = part.get("anyOf") or part.get("oneOf")
    if not isinstance(branches, list | tuple) or not all(isinstance(branch, Mapping) for branch in branches):
        return None
    return _only(kind_of(branch.get("type")) for branch in branches)


def _only(kinds: Iterable[str | None]) -> str | None:
    """The only kind there is beside null; null where that is the only one."""
    found = set(kinds)
    others = found - {"null"} or found
    return others.pop() if len(others) == 1 else None


def _enum(part: Mapping[str, Any], kind: str) -> list[str]:
    """The enum as text, null apart; none where text would not be read as what it was."""
    where = part.get("items") if kind == "array" else part
    enum = where.get("enum") if isinstance(where, Mapping) else None
    if not isinstance(enum, list | tuple):
        return []
    members = [member for member in enum if member is not None]
    written = [member if isinstance(member, str) else _written(member) for member in members]
    said = property_of({"type": kind, "enum": written})
    said = said.get("items", said)
    return written if same(said.get("enum"), members) else []


def _written(member: Any) -> str:
    try:
        return json.dumps(member)
    except (TypeError, ValueError, RecursionError):
        return ""
