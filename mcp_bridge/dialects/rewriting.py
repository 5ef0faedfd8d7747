"""Tools as a dialect tells them to clients; the tools themselves stay as they are.

The original schema is the one that validates. It is not repeated in the list: that would double it for every client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_bridge.dialects.dialect import Dialect
from mcp_bridge.dialects.flattening import flattened
from mcp_bridge.dialects.inlining import inlined
from mcp_bridge.dialects.parsing import Parsing
from mcp_bridge.schema.keywords import mapped
from mcp_bridge.wire.tools import WireTool


def applied(tool: WireTool, dialect: Dialect) -> WireTool:
    """The tool as it is told in this dialect; the same object where nothing changes."""
    schema, output, description = tool.input_schema, tool.output_schema, tool.description
    if dialect.inline_references:
        schema = inlined(schema, of=f"the input of tool {tool.name!r}")
        output = inlined(dict(output), of=f"the output of tool {tool.name!r}") if output else output
    if dialect.flatten_unions:
        flat = flattened(schema, of=f"the input of tool {tool.name!r}")
        schema = flat.schema
        description = "\n\n".join(text for text in (description, flat.told) if text)
    if dialect.write_properties:
        schema = _with_properties(schema)
    mend = Parsing(tool.definition.input_schema).parsed if dialect.parse_strings else None
    return replace(tool, input_schema=schema, output_schema=output, description=description, mend=mend, _listings={})


def _with_properties(schema: Any) -> Any:
    """The schema, in which every object names its properties, be they none."""
    if not isinstance(schema, Mapping):
        return schema
    made = mapped(schema, _with_properties)
    return {**made, "properties": {}} if made.get("type") == "object" and "properties" not in made else made
