"""Gemini, through the Developer API and Vertex AI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import ModelResult
from mcp_bridge.export.tools import ExportedTool


class Gemini(Format):
    """One tool with many function declarations; calls and results are parts of contents."""

    name = "gemini"
    needs_initial_letter = True

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """`parametersJsonSchema` accepts JSON Schema, which `parameters` does not."""
        declarations = [{**tool.labels, "parametersJsonSchema": tool.schema} for tool in tools]
        return [{"functionDeclarations": declarations}] if declarations else []

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The function calls of the first candidate; some have no id."""
        for item in list_items(response, "candidates", "content", "parts"):
            call = get_field(item, "function_call", "functionCall")
            if (name := get_field(call, "name")) is not None:
                yield RawCall(id=get_field(call, "id"), name=str(name), arguments=get_field(call, "args"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """A `functionResponse` part, with the id of the call if it has one."""
        output = result.text if result.value is None else result.value
        response = {"error": result.text} if result.failed else {"output": output}
        call_id = {"id": call.model_id} if call.model_id is not None else {}
        return {"functionResponse": {**call_id, "name": call.exported, "response": response}}

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One content: the order identifies results without an id."""
        return [{"role": "user", "parts": list(results)}] if results else []
