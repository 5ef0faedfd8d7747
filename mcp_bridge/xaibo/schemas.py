"""Xaibo's tools and JSON Schema, both ways. Tools are read by their fields, whatever package they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from mcp_bridge.xaibo.losses import parameters_of
from mcp_bridge.xaibo.parameters import choices_of, field, is_required, property_of, same

if TYPE_CHECKING:
    from mcp_bridge.xaibo.models import Tool

__all__ = ["arguments_of", "parameters_of", "schema_of", "schema_of_tool", "tool_of"]


def schema_of(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The JSON Schema of a tool's parameters: an object that takes others, too, for providers do.

    Raises TypeError for what is no mapping.
    """
    given = parameters or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"parameters: a mapping of names to ToolParameters, found {type(given).__name__}")
    made: dict[str, Any] = {
        "type": "object",
        "properties": {str(name): property_of(each) for name, each in given.items()},
    }
    if required := [str(name) for name, each in given.items() if is_required(each)]:
        made["required"] = required
    return made


def schema_of_tool(tool: Any) -> dict[str, Any]:
    """The JSON Schema of a tool's input; of one that `tool_of` has made, the very schema that it was made from.

    Raises TypeError where its parameters are no mapping.
    """
    parameters = field(tool, "parameters")
    kept = getattr(tool, "_input_schema", None)
    if isinstance(kept, dict) and parameters_of(kept)[0] == parameters:  # nobody has changed them since
        return _copied(kept)
    return schema_of(parameters)


def tool_of(name: str, description: str, schema: Any) -> Tool:
    """A tool with the parameters that say most of `schema`, which is kept beside them where that is not all."""
    from mcp_bridge.xaibo.models import Tool

    parameters, _ = parameters_of(schema)
    tool = Tool(name=name, description=description, parameters=parameters)
    if isinstance(schema, Mapping) and not _exactly(schema_of(parameters), schema):
        tool._input_schema = _copied(dict(schema))
    return tool


def arguments_of(parameters: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the provider wants them: the text of its enum where the schema has numbers or booleans for it."""
    return {name: _argument((parameters or {}).get(name), value) for name, value in given.items()}


def _argument(parameter: Any, value: Any) -> Any:
    if isinstance(value, bool | int | float) and parameter is not None and field(parameter, "enum"):
        members = choices_of(parameter).members
        return next((written for stated, written in members if same(stated, value)), value)
    return value


def _copied(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        return deepcopy(schema)
    except Exception:  # too deep, or a stranger's object in it
        return schema


def _exactly(one: Any, other: Any) -> bool:
    try:
        return json.dumps(one) == json.dumps(other)
    except (TypeError, ValueError, RecursionError):
        return False
