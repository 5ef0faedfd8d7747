"""Applies a dialect to a tool as clients see it. The tool itself does not change, and its own schema validates calls.

The list contains only the rewritten schema, because the original in addition would double its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.inlining import inline_references
from mcp_bridge._json_schema.walking import map_subschemas
from mcp_bridge._protocol.dialects.argument_repair import ArgumentRepair
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._protocol.dialects.flattening import flatten_root
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE
from mcp_bridge._protocol.wire.tools import WireTool, to_wire

CONDITIONS_NOTE = "The server checks more conditions on these arguments than the schema shows."


def render_tools(entries: Iterable[ToolEntry], dialect: SchemaDialect) -> list[dict[str, Any]]:
    """Return tools as a client of the last handshake version receives them in tools/list, for the linter."""
    tools = [to_wire(entry.to_tool_definition()) for entry in entries]
    if dialect.is_active:
        tools = [rewrite_tool(tool, dialect) for tool in tools]
    return [tool.render_listing(HANDSHAKE) for tool in tools]


def rewrite_tool(tool: WireTool, dialect: SchemaDialect, *, may_have_injections: bool = False) -> WireTool:
    """Return the tool as clients see it in this dialect.

    `may_have_injections` is whether policies may add texts to the results of tools.
    """
    if dialect.show_injections and may_have_injections:
        tool = replace(tool, output_schema=None, wraps_output=False, may_be_null=False, shows_injections=True)
    schema, output, description = tool.input_schema, tool.output_schema, tool.description
    if dialect.inline_references:
        schema = inline_references(schema, label=f"the input of tool {tool.name!r}")
        if output:
            output = inline_references(dict(output), label=f"the output of tool {tool.name!r}")
    if dialect.flatten_unions:
        flat = flatten_root(schema, label=f"the input of tool {tool.name!r}")
        schema = flat.schema
        if flat.omits_conditions:
            description = f"{description}\n\n{CONDITIONS_NOTE}" if description else CONDITIONS_NOTE
    if dialect.write_properties:
        schema = _write_properties(schema)
    repair = None
    if dialect.parse_strings or dialect.omit_empty:
        repair = ArgumentRepair(
            tool.definition.input_schema,
            parse_strings=dialect.parse_strings,
            omitted=(None, "") if dialect.omit_empty else (),
        ).repair
    return replace(
        tool, input_schema=schema, output_schema=output, description=description, repair=repair, _listings={}
    )


def _write_properties(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    copy = map_subschemas(schema, _write_properties)
    if copy.get("type") == "object":
        copy.setdefault("properties", {})
    return copy
