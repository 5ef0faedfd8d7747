"""The adapter for tools and tool collections of smolagents. The tools run in a thread."""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.content import Content
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.frameworks.common import Json, get_description, get_tool_name, is_a
from mcp_bridge._integrations.frameworks.content_blocks import from_file, from_url
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox, Toolkit
from mcp_bridge._protocol.wire.values import from_bytes

PACKAGE = "smolagents"
_OBJECTS = frozenset(("image", "audio"))
"""The types of smolagents for Python objects. JSON has no such values."""


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError if it requires an image or audio, because JSON has none."""
    name = get_tool_name(tool, "smolagents")

    def call(data: Json) -> Any:
        return _convert_returned(tool(**(data or {})), str(tool.output_type))

    return ToolEntry(name, get_description(tool), call, _build_schema(name, tool.inputs))


def build_toolbox(collection: Any) -> Toolbox:
    return Toolkit(lambda: collection.tools, build_entry)


def _build_schema(name: str, inputs: Mapping[str, Any]) -> Json:
    properties: Json = {}
    required: list[str] = []
    for key, item in inputs.items():
        is_optional = bool(item.get("nullable"))
        type_names = _list_types(item)
        json_types = [type_name for type_name in type_names if type_name not in _OBJECTS]
        if type_names and not json_types:
            if is_optional:
                continue
            raise SourceError(
                f"the smolagents tool '{name}' needs {type_names[0]} as '{key}', which no client can send. "
                "Change it to take a URL or a path"
            )
        properties[key] = _convert_input({**item, "type": json_types})
        if not is_optional:
            required.append(key)
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schema


def _list_types(item: Mapping[str, Any]) -> list[str]:
    types = item.get("type") or []
    return [types] if isinstance(types, str) else list(types)


def _convert_input(item: Mapping[str, Any]) -> Json:
    """Return one input as JSON Schema: `any` means no type, `nullable` adds null; other keys are copied."""
    schema = {key: _convert_nested(value) for key, value in item.items() if key not in ("type", "nullable")}
    types = _list_types(item)
    if not types or "any" in types:
        return schema
    if item.get("nullable"):
        if "null" not in types:
            types.append("null")
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    return {"type": types[0] if len(types) == 1 else types, **schema}


def _convert_nested(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "type" in value or "nullable" in value:
            return _convert_input(value)
        return {key: _convert_nested(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_nested(item) for item in value]
    return value


def _convert_returned(value: Any, output_type: str) -> Any:
    """Convert the value from a tool. `output_type` says whether a text is the path of an image or audio."""
    if is_a(value, PACKAGE, "AgentImage"):
        return _encode_image(value.to_raw())
    if is_a(value, PACKAGE, "AgentAudio"):
        return _convert_file(value.to_string())
    if is_a(value, PACKAGE, "AgentType"):
        return value.to_raw()
    if is_a(value, "PIL", "Image"):
        return _encode_image(value)
    if output_type in _OBJECTS and isinstance(value, bytes):
        return from_bytes(value)
    if output_type in _OBJECTS and isinstance(value, str | Path):
        return _convert_file(value)
    # smolagents can encode further values, such as arrays.
    if output_type in _OBJECTS and value is not None:
        agent_value = import_module(f"{PACKAGE}.agent_types").handle_agent_output_types(value, output_type)
        if agent_value is not value:
            return _convert_returned(agent_value, output_type)
    return value


def _encode_image(image: Any) -> Content:
    buffer = io.BytesIO()
    image.save(buffer, format="png")
    return from_bytes(buffer.getvalue(), "image/png")


def _convert_file(place: str | Path) -> Content:
    if "://" in str(place) or str(place).startswith("data:"):
        return from_url(str(place))
    return from_file(place)
