"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import PDF, ModelResult, format_block, get_image, get_pdf
from mcp_bridge.export.tools import ExportedTool


class OpenAIResponses(Format):
    """Calls are items of the output, results are items of the next input."""

    name = "openai-responses"
    strict = True

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """`strict` is always present, because this API's default is true."""
        return [
            {"type": "function", **tool.labels, "parameters": tool.schema, "strict": bool(tool.strict)}
            for tool in tools
        ]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The `function_call` items of the output."""
        for item in list_items(response, "output"):
            if get_field(item, "type") == "function_call":
                name = str(get_field(item, "name") or "")
                yield RawCall(id=get_field(item, "call_id"), name=name, arguments=get_field(item, "arguments"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """An input item. The format has no field for errors."""
        only_text = not any(get_image(block) or get_pdf(block) for block in result.blocks)
        output = result.text if only_text else [_format_block(block) for block in result.blocks]
        return {"type": "function_call_output", "call_id": call.id, "output": output}


def _format_block(block: dict[str, Any]) -> dict[str, Any]:
    if image := get_image(block):
        mime_type, data = image
        return {"type": "input_image", "image_url": f"data:{mime_type};base64,{data}", "detail": "auto"}
    if pdf := get_pdf(block):
        return {"type": "input_file", "filename": "document.pdf", "file_data": f"data:{PDF};base64,{pdf}"}
    return {"type": "input_text", "text": format_block(block)}
