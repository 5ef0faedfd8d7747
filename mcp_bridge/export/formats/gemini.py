"""Gemini, by the Developer API and Vertex AI alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import Answer
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class Gemini:
    """One tool of many function declarations; calls and results are parts of contents."""

    name: str = "gemini"
    strict: bool = False
    begins_with_letter: bool = True

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request. `parametersJsonSchema` takes JSON Schema, which `parameters` does not."""
        declared = [
            {
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "parametersJsonSchema": tool.schema,
            }
            for tool in tools
        ]
        return [{"functionDeclarations": declared}] if declared else []

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The function calls among the parts of the first candidate; not all have an id."""
        for item in inside(response, "candidates", "content", "parts"):
            call = field(item, "function_call", "functionCall")
            if (name := field(call, "name")) is not None:
                yield Wanted(id=field(call, "id"), name=str(name), arguments=field(call, "args"))

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """A part, with the id where the call had one; what is no text is told in words."""
        output = answer.text if answer.value is None else answer.value
        response = {"error": answer.text} if answer.failed else {"output": output}
        given = {"id": call.model_id} if call.model_id is not None else {}
        return {"functionResponse": {**given, "name": call.exported, "response": response}}

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One content: results without an id are told apart by their order."""
        return [{"role": "user", "parts": list(results)}] if results else []
