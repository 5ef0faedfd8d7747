"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import PDF, ModelResult, format_block, get_image, get_pdf
from mcp_bridge.export.tools import ExportedTool


class Anthropic(Format):
    """Calls are `tool_use` blocks, results are `tool_result` blocks of one user message."""

    name = "anthropic"

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Tools with an `input_schema`."""
        return [{**tool.labels, "input_schema": tool.schema} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The `tool_use` blocks; tools that Anthropic runs itself have blocks of another type."""
        for item in list_items(response, "content"):
            if get_field(item, "type") == "tool_use":
                name = str(get_field(item, "name") or "")
                yield RawCall(id=get_field(item, "id"), name=name, arguments=get_field(item, "input"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """A `tool_result` block. Blank text is dropped, because the API rejects it."""
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
        blocks = [_format_block(item) for item in result.blocks]
        content = [item for item in blocks if item.get("text") is None or item["text"].strip()]
        if len(content) == 1 and content[0]["type"] == "text":
            block["content"] = content[0]["text"]
        elif content:
            block["content"] = content
        return block | {"is_error": True} if result.failed else block

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One message: this API expects all results of a response in the next message."""
        return [{"role": "user", "content": list(results)}] if results else []


def _format_block(block: dict[str, Any]) -> dict[str, Any]:
    if image := get_image(block):
        return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
    if pdf := get_pdf(block):
        return {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": pdf}}
    return {"type": "text", "text": format_block(block)}
