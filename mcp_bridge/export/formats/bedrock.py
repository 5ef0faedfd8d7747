"""Amazon Bedrock's Converse API."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_bridge.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge.export.format import Format
from mcp_bridge.export.results import NOTHING, ModelResult, format_block, get_image, get_pdf
from mcp_bridge.export.tools import ExportedTool


class Bedrock(Format):
    """Calls are `toolUse` blocks, results are `toolResult` blocks of one user message."""

    name = "bedrock"

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request's `toolConfig`."""
        return [{"toolSpec": {**tool.labels, "inputSchema": {"json": tool.schema}}} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """The `toolUse` blocks of the message."""
        for item in list_items(response, "output", "message", "content"):
            call = get_field(item, "toolUse")
            if (name := get_field(call, "name")) is not None:
                yield RawCall(id=get_field(call, "toolUseId"), name=str(name), arguments=get_field(call, "input"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """A `toolResult` block. Blank text is dropped, because the API rejects it."""
        blocks = [_format_block(item) for item in result.blocks] if result.value is None else [{"json": result.value}]
        content = [item for item in blocks if "text" not in item or str(item["text"]).strip()]
        status = "error" if result.failed else "success"
        return {"toolResult": {"toolUseId": call.id, "content": content or [{"text": NOTHING}], "status": status}}

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One message: this API expects all results of a response in the next message."""
        return [{"role": "user", "content": list(results)}] if results else []


def _format_block(block: dict[str, Any]) -> dict[str, Any]:
    """Images and PDFs as bytes, which boto3 expects."""
    if image := get_image(block):
        mime_type, data = image
        return {"image": {"format": mime_type.removeprefix("image/"), "source": {"bytes": base64.b64decode(data)}}}
    if pdf := get_pdf(block):
        return {"document": {"format": "pdf", "name": "document", "source": {"bytes": base64.b64decode(pdf)}}}
    return {"text": format_block(block)}
