"""Reads content blocks from clients and upstreams."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text


def from_block(block: Mapping[str, Any]) -> Content | Mapping[str, Any]:
    """Return a block as content. Blocks without a class here (`tool_use`), and invalid ones, are returned unchanged."""
    common_fields = {"annotations": block.get("annotations"), "meta": block.get("_meta")}
    try:
        match block.get("type"):
            case "text":
                # Some servers send null for no text.
                return Text("" if block["text"] is None else str(block["text"]), **common_fields)
            case "image":
                return Image(_decode_base64(block["data"]), _convert_text(block["mimeType"]), **common_fields)
            case "audio":
                return Audio(_decode_base64(block["data"]), _convert_text(block["mimeType"]), **common_fields)
            case "resource":
                resource = block["resource"]
                content = _decode_base64(resource["blob"]) if "blob" in resource else _convert_text(resource["text"])
                return EmbeddedResource(
                    _convert_text(resource["uri"]),
                    content,
                    resource.get("mimeType"),
                    resource_meta=resource.get("_meta"),
                    **common_fields,
                )
            case "resource_link":
                return ResourceLink(
                    _convert_text(block["uri"]),
                    _convert_text(block["name"]),
                    block.get("title"),
                    block.get("description"),
                    block.get("mimeType"),
                    block.get("size"),
                    icons=block.get("icons"),
                    **common_fields,
                )
    except (KeyError, TypeError, ValueError):
        # ValueError includes binascii.Error and UnicodeEncodeError.
        pass
    return block


def _convert_text(value: Any) -> str:
    """Return a value as text. Raises TypeError for null, which is no text."""
    if value is None:
        raise TypeError("null is not a text")
    return str(value)


def _decode_base64(data: Any) -> bytes:
    return base64.b64decode(data, validate=True)
