"""Ollama's chat API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import ModelResult
from mcp_bridge.export.tools import ExportedTool


class Ollama(Format):
    """Functions as in OpenAI's API, but calls have no ids, and their arguments are parsed already."""

    name = "ollama"

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Tools of the type `function`."""
        return [{"type": "function", "function": {**tool.labels, "parameters": tool.schema}} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The `tool_calls` of the message."""
        for item in list_items(response, "message", "tool_calls"):
            function = get_field(item, "function")
            if (name := get_field(function, "name")) is not None:
                yield RawCall(id=get_field(item, "id"), name=str(name), arguments=get_field(function, "arguments"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """A message. The format only has text, also for errors."""
        return {"role": "tool", "tool_name": call.exported, "content": result.text}
