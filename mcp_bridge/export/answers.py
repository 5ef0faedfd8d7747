"""A result as a model is told: content blocks as MCP clients have them, and words for what a format cannot carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.tool import ToolDefinition, ToolResult
from mcp_bridge.wire.results import to_mcp
from mcp_bridge.wire.tools import to_wire
from mcp_bridge.wire.values import to_result

NOTHING = "The tool answered nothing."
"""For formats that want words in any case."""
PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What Anthropic, OpenAI and Bedrock take."""
PDF = "application/pdf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`blocks` are MCP's content blocks as JSON; `value` is the object that a tool answered, where it is one."""

    failed: bool
    blocks: tuple[dict[str, Any], ...]
    value: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """All of it in words, a line or more for each block; a single text verbatim."""
        return "\n".join(map(in_words, self.blocks))


def told(result: ToolResult) -> Answer:
    """What a model is told of a result: its text verbatim, the error first where it failed.

    Raises ValueError for an output that contains itself; none that comes from a registry does.
    """
    result = to_result(result)
    wire = to_wire(ToolDefinition(name="", description="", module=""))
    blocks = to_mcp(result, wire, "")["content"]
    plain = result.success and result.content is None and isinstance(result.output, dict)
    return Answer(failed=bool(result.is_error), blocks=tuple(blocks), value=result.output if plain else None)


def in_words(block: Mapping[str, Any]) -> str:
    """A block as text: what it says, or what it would have shown."""
    match block["type"]:
        case "text":
            return str(block["text"])
        case "resource_link":
            described = f" ({block['description']})" if block.get("description") else ""
            return f"{block['name']}: {block['uri']}{described}"
        case "resource" if "text" in block["resource"]:
            return str(block["resource"]["text"])
        case "resource":
            resource = block["resource"]
            return _absent(f"resource {resource['uri']}", resource.get("mimeType"), resource["blob"])
        case kind:
            return _absent(kind, block.get("mimeType"), str(block.get("data", "")))


def picture(block: Mapping[str, Any]) -> tuple[str, str] | None:
    """The media type and the base64 of a picture that models take, None for any other block."""
    if block["type"] == "image" and block["mimeType"] in PICTURES:
        return block["mimeType"], block["data"]
    return None


def paper(block: Mapping[str, Any]) -> str | None:
    """The base64 of a PDF, None for any other block."""
    resource = block.get("resource", {})
    return resource.get("blob") if resource.get("mimeType") == PDF else None


def _absent(what: str, mime_type: str | None, data: str) -> str:
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{what}, {f'{mime_type}, ' if mime_type else ''}{size} bytes, which cannot be shown here]"
