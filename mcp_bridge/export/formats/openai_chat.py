"""OpenAI's chat completions, and whatever is compatible with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import Answer
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """Tools are functions, calls are `tool_calls` of a message, each result is a message of the role `tool`."""

    name: str = "openai"
    strict: bool = True
    begins_with_letter: bool = False

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request."""
        return [{"type": "function", "function": _function(tool)} for tool in tools]

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The calls of a completion's first choice; custom tools are none of ours, but want an answer too."""
        for item in inside(response, "choices", "message", "tool_calls"):
            function = field(item, "function", "custom")
            if (name := field(function, "name")) is not None:
                arguments = field(function, "arguments", "input")
                yield Wanted(id=field(item, "id"), name=str(name), arguments=arguments)

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """A message; this format takes text alone and has no word for an error but its text."""
        return {"role": "tool", "tool_call_id": call.id, "content": answer.text}

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """A message each."""
        return list(results)


def _function(tool: ExportedTool) -> dict[str, Any]:
    made: dict[str, Any] = {"name": tool.name}
    if tool.description:
        made["description"] = tool.description
    made["parameters"] = tool.schema
    return made if tool.strict is None else made | {"strict": tool.strict}
