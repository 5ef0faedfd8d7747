"""OpenAI's chat completions, and APIs compatible with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import ModelResult
from mcp_bridge.export.tools import ExportedTool


class OpenAIChat(Format):
    """Tools are functions, calls are `tool_calls` of a message, each result is a message with the role `tool`."""

    name = "openai"
    strict = True

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Tools of the type `function`."""
        return [{"type": "function", "function": _build_function(tool)} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The calls of the first choice, custom tools included: they are never exported, but need a result."""
        for item in list_items(response, "choices", "message", "tool_calls"):
            function = get_field(item, "function", "custom")
            if (name := get_field(function, "name")) is not None:
                arguments = get_field(function, "arguments", "input")
                yield RawCall(id=get_field(item, "id"), name=str(name), arguments=arguments)

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """A message. The format only has text, also for errors."""
        return {"role": "tool", "tool_call_id": call.id, "content": result.text}


def _build_function(tool: ExportedTool) -> dict[str, Any]:
    function: dict[str, Any] = {**tool.labels, "parameters": tool.schema}
    return function if tool.strict is None else function | {"strict": tool.strict}
