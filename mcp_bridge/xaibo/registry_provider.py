"""Gives the tools of a registry to a Xaibo agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from mcp_bridge.contracts.caller import Caller
from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import CallError, ToolNotFound
from mcp_bridge.contracts.registry_owner import RegistryOwner, get_caller
from mcp_bridge.contracts.tool import ToolCall, ToolEntry
from mcp_bridge.schema.references import resolve_pointer
from mcp_bridge.wire.client_names import to_client_name
from mcp_bridge.wire.content import render_block
from mcp_bridge.wire.outcomes import to_error_result
from mcp_bridge.wire.tools import WireTool, to_wire
from mcp_bridge.xaibo.results import to_provider_fields
from mcp_bridge.xaibo.source.running_call import RUNNING

_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_CARRIED = frozenset({"type", "description", "default", "enum", "title"})
"""The keywords that a ToolParameter has fields for, or that are only for display."""


class RegistryToolProvider:
    """The tools of a registry, or of a running bridge, as the ToolProvider of a Xaibo agent.

    Every call goes through the pipeline of the registry, with its validation, limits, hooks and approvals. What a
    ToolParameter cannot express is in its description, as JSON Schema.
    """

    def __init__(self, tools: Caller | RegistryOwner) -> None:
        self._caller = get_caller(tools)

    async def list_tools(self) -> list[Any]:
        """Return the registered tools, as xaibo's own models if xaibo is imported."""
        return [build_tool(wire) for wire in map(_to_wire, self._caller.list())]

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        """Run a tool. Errors are results."""
        try:
            wire = self._find_tool(tool_name)
            running, identifier = RUNNING.get(), uuid4().hex
            ctx = running.ctx if running is not None else CallContext(request_id=identifier)
            arguments = wire.read_arguments(parameters)
            call = ToolCall(id=identifier, name=wire.definition.name, arguments=arguments, root=wire.root)
            result = await self._caller.dispatch(call, ctx)
        except CallError as error:
            result = to_error_result(error)
        fields = to_provider_fields(result)
        if isinstance(fields["result"], list) and any(isinstance(item, Content) for item in fields["result"]):
            fields["result"] = "\n".join(map(_format_content, fields["result"]))
        return _get_models().ToolResult(**fields)

    def _find_tool(self, name: str) -> WireTool:
        entry = next((entry for entry in self._caller.list() if to_client_name(entry.name) == name), None)
        if entry is None:
            raise ToolNotFound(f"Unknown tool: {name}.")
        return _to_wire(entry)


def _to_wire(entry: ToolEntry) -> WireTool:
    return to_wire(entry.to_tool_definition())


def _get_models() -> Any:
    """xaibo's models, which other modules of an agent require, or else the same ones of this package."""
    if (theirs := sys.modules.get("xaibo.core.models.tools")) is not None:
        return theirs
    from mcp_bridge.xaibo import models

    return models


def build_tool(wire: WireTool) -> Any:
    """Return a tool as Xaibo describes it."""
    schema, models = wire.input_schema, _get_models()
    required = schema.get("required", ())
    parameters = {
        name: models.ToolParameter(**_build_fields(part, schema), required=name in required)
        for name, part in schema.get("properties", {}).items()
    }
    return models.Tool(name=wire.name, description=wire.description, parameters=parameters)


def _build_fields(part: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    schema = _resolve(part, root)
    kind, enum = _choose_type(schema, root), schema.get("enum")
    has_texts = isinstance(enum, list) and all(isinstance(item, str) for item in enum)
    lost = {*schema} - _CARRIED or ("enum" in schema and not has_texts)
    text = json.dumps({name: schema[name] for name in schema if name not in ("description", "title", "default")})
    notes = [f"JSON Schema: {text}"] if lost and "$ref" not in text else []
    description = " ".join([*filter(None, [schema.get("description")]), *notes])
    return {
        "type": kind,
        "description": description or None,
        "default": schema.get("default"),
        "enum": enum if has_texts and kind == "string" else None,
    }


def _resolve(part: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = part if isinstance(part, Mapping) else {}
    target = resolve_pointer(schema["$ref"], root) if isinstance(schema.get("$ref"), str) else None
    if not isinstance(target, Mapping):
        return schema
    return {**target, **{name: value for name, value in schema.items() if name != "$ref"}}


def _choose_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """The type that is not null, of the schema or of its first alternative that has one; text if there is none."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    alternatives = [_resolve(part, root) for part in (schema.get("anyOf") or schema.get("oneOf") or ())]
    names = [*names, *(part.get("type") for part in alternatives), "object" if "properties" in schema else "string"]
    return next(name for name in names if isinstance(name, str) and name in _TYPES and name != "null")


def _format_content(item: Any) -> str:
    block = render_block(item, "") if isinstance(item, Content) else {"type": "text", "text": str(item)}
    return str(block["text"]) if block["type"] == "text" else f"[{block['type']} {block.get('mimeType', '')}]"
