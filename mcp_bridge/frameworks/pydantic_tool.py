"""Tools of pydantic-ai: `Tool`, of a function that may want a `RunContext`, whose dependencies are None here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks import pydantic_calls
from mcp_bridge.frameworks.pydantic_calls import PACKAGE
from mcp_bridge.frameworks.shapes import is_a


def fits(thing: object) -> bool:
    """Whether this is a tool of pydantic-ai."""
    return is_a(thing, PACKAGE, "Tool")


def entry_of(thing: object) -> ToolEntry:
    """The tool, as it is before anything prepares it. Raises SourceError for one that cannot be called here."""
    tool: Any = thing
    definition = tool.tool_def
    reason = pydantic_calls.why_not(definition)
    if reason is not None:
        raise SourceError(reason)
    toolset = import_module(f"{PACKAGE}.toolsets").FunctionToolset(tools=[tool])
    return pydantic_calls.entry_of(definition, toolset)
