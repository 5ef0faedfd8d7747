"""Converts a tool's result for a model: to MCP content blocks, and to text if a format does not support a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.tool import ToolDefinition, ToolResult
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._protocol.wire.tools import to_mcp, to_wire
from mcp_bridge._protocol.wire.values import to_result

NOTHING = "The tool returned nothing."
"""The text for a result without content, in formats with required text."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The media types of images that Anthropic, OpenAI and Bedrock accept."""
PDF = "application/pdf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """A result for a model: MCP content blocks as JSON, and the tool's output in `value` if it is an object."""

    failed: bool
    blocks: tuple[dict[str, Any], ...]
    value: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """All blocks as text. Each begins on a new line, and a single text is verbatim."""
        return "\n".join(map(format_block, self.blocks))


def to_model_result(result: ToolResult) -> ModelResult:
    """Convert a result. Text stays verbatim, and the error comes first in a failed result.

    Raises ValueError for an output that contains itself. No registry returns one.
    """
    result = to_result(result)
    wire = to_wire(ToolDefinition(name="", description="", module=""))
    blocks = to_mcp(result, wire, IN_PROCESS)["content"]
    value = None
    if result.success and result.content is None and isinstance(result.output, dict):
        value = result.output
    return ModelResult(failed=bool(result.is_error), blocks=tuple(blocks), value=value)


def format_block(block: Mapping[str, Any]) -> str:
    """Return the text of a block. A block without text becomes a line with its type and size."""
    match block["type"]:
        case "text":
            return str(block["text"])
        case "resource_link":
            text = f"{block['name']}: {block['uri']}"
            if block.get("description"):
                text += f" ({block['description']})"
            return text
        case "resource" if "text" in block["resource"]:
            return str(block["resource"]["text"])
        case "resource":
            resource = block["resource"]
            return _format_omission(f"resource {resource['uri']}", resource.get("mimeType"), resource["blob"])
        case kind:
            return _format_omission(kind, block.get("mimeType"), str(block.get("data", "")))


def get_image(block: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the media type and the base64 of an image for models, or None for any other block."""
    if block["type"] == "image" and block["mimeType"] in IMAGES:
        return block["mimeType"], block["data"]
    return None


def get_pdf(block: Mapping[str, Any]) -> str | None:
    """Return the base64 of a PDF, or None for an empty one and for any other block."""
    resource = block.get("resource", {})
    if resource.get("mimeType") != PDF:
        return None
    return resource.get("blob") or None


def _format_omission(subject: str, mime_type: str | None, data: str) -> str:
    # Four characters of base64 are three bytes, without the padding.
    size = len(data) * 3 // 4 - data[-2:].count("=")
    properties = f"{mime_type}, {size} bytes" if mime_type else f"{size} bytes"
    return f"[{subject}, {properties}, which cannot be shown here]"
