"""Describes published tools in the models of Xaibo, for the agents of Xaibo."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.references import resolve_schema
from mcp_bridge._json_schema.type_sets import TYPES
from mcp_bridge._protocol.wire.tools import WireTool

_EXPRESSIBLE = frozenset({"type", "description", "default", "enum", "title"})
"""The keywords for the fields of a ToolParameter, and `title` for display."""


def get_models() -> Any:
    """Return the module with the models of xaibo if it is imported, because xaibo's agents require its own classes.

    Otherwise return the copies of this package.
    """
    xaibo_models = sys.modules.get("xaibo.core.models.tools")
    if xaibo_models is not None:
        return xaibo_models
    from mcp_bridge._integrations.xaibo import models

    return models


def adapt_tool(tool: Any) -> Any:
    """Return a tool of a provider in the class of xaibo, because the orchestrators of xaibo reject other classes."""
    models = get_models()
    return tool if isinstance(tool, models.Tool) else models.Tool.model_validate(tool, from_attributes=True)


def build_xaibo_tool(wire: WireTool) -> Any:
    """Return a tool in the model of Xaibo."""
    schema, models = wire.input_schema, get_models()
    required_names = schema.get("required", ())
    parameters = {}
    for name, subschema in schema.get("properties", {}).items():
        fields = _build_fields(subschema, schema)
        parameters[name] = models.ToolParameter(**fields, required=name in required_names)
    return models.Tool(name=wire.name, description=wire.description, parameters=parameters)


def _build_fields(subschema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ToolParameter. The rest of the schema is added to the description, as JSON Schema."""
    schema = resolve_schema(subschema, root)
    type_name, enum = _choose_type(schema, root), schema.get("enum")
    has_texts = isinstance(enum, list) and all(isinstance(item, str) for item in enum)
    # A ToolParameter allows an enum of texts only. For a number, its texts would be wrong.
    is_text_enum = has_texts and type_name == "string"
    is_lossy = not _EXPRESSIBLE.issuperset(schema) or ("enum" in schema and not has_texts)
    text = json.dumps({name: schema[name] for name in schema if name not in ("description", "title", "default")})
    description = schema.get("description") or ""
    # The model could not resolve a reference, because it does not see the whole schema.
    if is_lossy and "$ref" not in text:
        description = f"{description} JSON Schema: {text}".lstrip()
    return {
        "type": type_name,
        "description": description or None,
        "default": schema.get("default"),
        "enum": enum if is_text_enum else None,
    }


def _choose_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return the first type of the schema, or of its alternatives, except null."""
    types = schema.get("type")
    names = list(types) if isinstance(types, list) else [types]
    for alternative in schema.get("anyOf") or schema.get("oneOf") or ():
        names.append(resolve_schema(alternative, root).get("type"))
    for name in names:
        if isinstance(name, str) and name in TYPES and name != "null":
            return name
    return "object" if "properties" in schema else "string"
