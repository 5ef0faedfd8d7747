"""The adapter for tools of CrewAI: `BaseTool` and its subclasses, and `CrewStructuredTool`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import (
    Json,
    get_description,
    get_tool_name,
    is_a,
    make_failure,
    to_json_schema,
)

PACKAGE = "crewai"
_PROMPT = re.compile(r"\ATool Name:.*\nTool Arguments:.*\nTool Description:\s*", re.DOTALL)
"""CrewAI puts the name and the arguments of a tool before its description, for prompts."""
_PLACEHOLDER = "_ArgsSchemaPlaceholder"
"""CrewAI's class for a tool without a schema."""


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError if it has no usable schema."""
    name = get_tool_name(tool, "CrewAI")
    model = getattr(tool, "args_schema", None)
    schema: Json = {"type": "object"}
    if model is not None and getattr(model, "__name__", "") != _PLACEHOLDER:
        schema = to_json_schema(model)
    return ToolEntry(name, _PROMPT.sub("", get_description(tool)), partial(_call, tool), schema)


def _call(tool: Any, data: Json) -> Any:
    arguments = dict(data or {})
    try:
        is_structured = is_a(tool, PACKAGE, "CrewStructuredTool")
        value = tool.invoke(arguments) if is_structured else tool.run(**arguments)
    except Exception as error:
        return _convert_error(tool, error)
    return _convert_returned(tool, value)


def _convert_error(tool: Any, error: Exception) -> ToolResult:
    """Return a failure for an error whose text is for the model. Raises any other error."""
    if is_a(error, PACKAGE, "ToolUsageLimitExceededError"):
        return make_failure(str(error))
    beginnings = ("Arguments validation failed", f"Tool '{tool.name}' arguments validation failed")
    if isinstance(error, ValueError) and str(error).startswith(beginnings):
        return make_failure(str(error), "invalid_arguments")
    raise error


def _convert_returned(tool: Any, value: Any) -> Any:
    if is_a(value, PACKAGE, "ToolFailure"):
        return make_failure(str(value.message), getattr(value, "code", None))
    has_limit = getattr(tool, "max_usage_count", None) is not None
    # Versions without ToolUsageLimitExceededError return this text instead.
    limit_text = f"Tool '{tool.name}' has reached its usage limit of "
    if has_limit and isinstance(value, str) and value.startswith(limit_text):
        return make_failure(value)
    return value
