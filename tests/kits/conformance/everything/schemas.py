"""Tools whose input schemas the suite inspects."""

from __future__ import annotations

from typing import Annotated, Any

from shelf import registry

from mcp_bridge import Header, tool

CONTACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""A schema with most of what JSON Schema 2020-12 has; clients must get all of it."""


@tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", CONTACT, registry=registry)
def json_schema_2020_12_tool(contact: dict[str, Any]) -> str:
    """Return the ways to reach a contact."""
    return f"Reached by {', '.join(sorted(contact))}."


@tool(registry=registry)
def test_x_mcp_header(region: Annotated[str, Header("Region")]) -> str:
    """Return the region in the arguments and in the header.

    Args:
        region: The region, also in a header for routers.
    """
    return f"Region: {region}"
