"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.export.answers import PDF, Answer, in_words, paper, picture
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.reading import Wanted, field, inside
from mcp_bridge.export.tools import ExportedTool


@dataclass(frozen=True, slots=True)
class OpenAIResponses:
    """Calls are items of the output, results are items of the next input."""

    name: str = "openai-responses"
    strict: bool = True
    begins_with_letter: bool = False

    def tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """The `tools` of a request. `strict` is always said: left out, this API takes it for true."""
        return [
            {
                "type": "function",
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "parameters": tool.schema,
                "strict": bool(tool.strict),
            }
            for tool in tools
        ]

    def wanted(self, response: Any) -> Iterator[Wanted]:
        """The `function_call` items."""
        for item in inside(response, "output"):
            if field(item, "type") == "function_call":
                name = str(field(item, "name") or "")
                yield Wanted(id=field(item, "call_id"), name=name, arguments=field(item, "arguments"))

    def result(self, call: ModelCall, answer: Answer) -> dict[str, Any]:
        """An item of input; pictures and PDFs as such, a failure is told by its text."""
        only_text = not any(picture(block) or paper(block) for block in answer.blocks)
        output = answer.text if only_text else [_part(block) for block in answer.blocks]
        return {"type": "function_call_output", "call_id": call.id, "output": output}

    def messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """An item each."""
        return list(results)


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if shown := picture(block):
        mime_type, data = shown
        return {"type": "input_image", "image_url": f"data:{mime_type};base64,{data}", "detail": "auto"}
    if document := paper(block):
        return {"type": "input_file", "filename": "document.pdf", "file_data": f"data:{PDF};base64,{document}"}
    return {"type": "input_text", "text": in_words(block)}
