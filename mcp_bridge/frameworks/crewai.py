"""CrewAI tools: `BaseTool` and all that inherit from it, and `CrewStructuredTool`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.shapes import Json, described, is_a, named, of_model

PACKAGE = "crewai"
_PROMPT = re.compile(r"\ATool Name:.*\nTool Arguments:.*\nTool Description:\s*", re.DOTALL)
"""What CrewAI has put before a description where it was made for a prompt."""
_PLACEHOLDER = "_ArgsSchemaPlaceholder"


def fits(thing: object) -> bool:
    """Whether this is a tool of CrewAI."""
    return is_a(thing, PACKAGE, "BaseTool", "CrewStructuredTool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one without a usable schema."""
    tool: Any = thing
    name = named(tool, "CrewAI")
    return ToolEntry(name, _PROMPT.sub("", described(tool)), partial(_call, tool), _schema(tool))


def _schema(tool: Any) -> Json:
    given = getattr(tool, "args_schema", None)
    if given is None or getattr(given, "__name__", "") == _PLACEHOLDER:
        return {"type": "object"}
    return of_model(given)


def _call(tool: Any, data: Json) -> Any:
    """Run it, as its own limits allow."""
    arguments = dict(data or {})
    try:
        structured = is_a(tool, PACKAGE, "CrewStructuredTool")
        answer = tool.invoke(arguments) if structured else tool.run(**arguments)
    except Exception as error:
        return _told(tool, error)
    return _read(tool, answer)


def _told(tool: Any, error: Exception) -> ToolResult:
    """What an exception means for the model. Raises it again where it is not meant for one."""
    if is_a(error, PACKAGE, "ToolUsageLimitExceededError"):
        return _failed(str(error))
    beginnings = ("Arguments validation failed", f"Tool '{tool.name}' arguments validation failed")
    if isinstance(error, ValueError) and str(error).startswith(beginnings):
        return _failed(str(error), "invalid_arguments")
    raise error


def _read(tool: Any, answer: Any) -> Any:
    """What was answered, told apart from what CrewAI says about a failure."""
    if is_a(answer, PACKAGE, "ToolFailure"):
        return _failed(str(answer.message), getattr(answer, "code", None))
    limited = isinstance(answer, str) and getattr(tool, "max_usage_count", None) is not None
    # Before it had a type of its own for that, text told of a limit.
    if limited and answer.startswith(f"Tool '{tool.name}' has reached its usage limit of "):
        return _failed(answer)
    return answer


def _failed(text: str, code: str | None = None) -> ToolResult:
    return ToolResult(success=False, error=text, code=code or "tool_error")
