"""Ollama's chat API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import Answer
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class Ollama:
    """Functions as OpenAI has them; calls have no ids, and arguments that are parsed already."""

    name: str = "ollama"
    strict: bool = False
    begins_with_letter: bool = False

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    **({"description": tool.description} if tool.description else {}),
                    "parameters": tool.schema,
                },
            }
            for tool in tools
        ]

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The calls of an answer's message."""
        for item in inside(response, "message", "tool_calls"):
            function = field(item, "function")
            if (name := field(function, "name")) is not None:
                yield Wanted(id=field(item, "id"), name=str(name), arguments=field(function, "arguments"))

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """A message; this format takes text and has no word for an error but its text."""
        return {"role": "tool", "tool_name": call.exported, "content": answer.text}

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """A message each, in the order of the calls."""
        return list(results)
