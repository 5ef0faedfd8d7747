"""Amazon Bedrock's Converse API."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import NOTHING, Answer, in_words, paper, picture
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class Bedrock:
    """Calls are `toolUse` blocks, results are `toolResult` blocks of one message of the user."""

    name: str = "bedrock"
    strict: bool = False
    begins_with_letter: bool = False

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request's `toolConfig`."""
        return [
            {
                "toolSpec": {
                    "name": tool.name,
                    **({"description": tool.description} if tool.description else {}),
                    "inputSchema": {"json": tool.schema},
                }
            }
            for tool in tools
        ]

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The `toolUse` blocks of an answer."""
        for item in inside(response, "output", "message", "content"):
            call = field(item, "toolUse")
            if (name := field(call, "name")) is not None:
                yield Wanted(id=field(call, "toolUseId"), name=str(name), arguments=field(call, "input"))

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """A block; pictures and PDFs as such, in bytes, as boto3 takes them. Blank text is refused there."""
        blocks = [_block(block) for block in answer.blocks] if answer.value is None else [{"json": answer.value}]
        content = [block for block in blocks if "text" not in block or str(block["text"]).strip()]
        status = "error" if answer.failed else "success"
        return {"toolResult": {"toolUseId": call.id, "content": content or [{"text": NOTHING}], "status": status}}

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One message: this API wants all results of one answer in the next."""
        return [{"role": "user", "content": list(results)}] if results else []


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if shown := picture(block):
        mime_type, data = shown
        return {"image": {"format": mime_type.removeprefix("image/"), "source": {"bytes": base64.b64decode(data)}}}
    if document := paper(block):
        return {"document": {"format": "pdf", "name": "document", "source": {"bytes": base64.b64decode(document)}}}
    return {"text": in_words(block)}
