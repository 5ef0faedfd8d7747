"""Reads content blocks that clients and other servers send."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text


def from_block(block: Mapping[str, Any]) -> Content | Mapping[str, Any]:
    """Return a block as content. Blocks without a class here (`tool_use`), and invalid ones, are returned unchanged."""
    shared = {"annotations": block.get("annotations"), "meta": block.get("_meta")}
    try:
        match block.get("type"):
            case "text":
                return Text("" if block["text"] is None else str(block["text"]), **shared)
            case "image":
                return Image(_decode_base64(block["data"]), str(block["mimeType"]), **shared)
            case "audio":
                return Audio(_decode_base64(block["data"]), str(block["mimeType"]), **shared)
            case "resource":
                return _read_embedded_resource(block["resource"], shared)
            case "resource_link":
                details = (block.get("title"), block.get("description"), block.get("mimeType"), block.get("size"))
                return ResourceLink(str(block["uri"]), str(block["name"]), *details, icons=block.get("icons"), **shared)
    except (KeyError, TypeError, ValueError):  # ValueError includes binascii.Error and UnicodeEncodeError
        pass
    return block


def _read_embedded_resource(resource: Mapping[str, Any], shared: Mapping[str, Any]) -> EmbeddedResource:
    content = _decode_base64(resource["blob"]) if "blob" in resource else str(resource["text"])
    return EmbeddedResource(
        str(resource["uri"]), content, resource.get("mimeType"), resource_meta=resource.get("_meta"), **shared
    )


def _decode_base64(data: Any) -> bytes:
    return base64.b64decode(data, validate=True)
