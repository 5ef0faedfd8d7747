"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import PDF, Answer, in_words, paper, picture
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class Anthropic:
    """Calls are `tool_use` blocks, results are `tool_result` blocks of one message of the user."""

    name: str = "anthropic"
    strict: bool = False
    begins_with_letter: bool = False

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request."""
        return [
            {
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "input_schema": tool.schema,
            }
            for tool in tools
        ]

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The `tool_use` blocks; tools that Anthropic runs itself have blocks of another type."""
        for item in inside(response, "content"):
            if field(item, "type") == "tool_use":
                name = str(field(item, "name") or "")
                yield Wanted(id=field(item, "id"), name=name, arguments=field(item, "input"))

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """A block; pictures and PDFs as such. Blocks of blank text are refused there, so there are none."""
        made: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
        blocks = [_block(block) for block in answer.blocks]
        content = [block for block in blocks if block.get("text") is None or block["text"].strip()]
        if len(content) == 1 and content[0]["type"] == "text":
            made["content"] = content[0]["text"]
        elif content:
            made["content"] = content
        return made | {"is_error": True} if answer.failed else made

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One message: this API wants all results of one answer in the next."""
        return [{"role": "user", "content": list(results)}] if results else []


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if shown := picture(block):
        return {"type": "image", "source": {"type": "base64", "media_type": shown[0], "data": shown[1]}}
    if document := paper(block):
        return {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": document}}
    return {"type": "text", "text": in_words(block)}
