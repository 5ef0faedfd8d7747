"""Renders content blocks as JSON-ready dicts, in the form of the client's protocol version."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge._protocol.wire.annotations import render_icons, select_annotations
from mcp_bridge._protocol.wire.protocol_versions import AUDIO, STRUCTURED, has_feature
from mcp_bridge._protocol.wire.values import (
    Unreadable,
    make_text_block,
    to_block,
    to_plain,
    to_plain_mapping,
    to_plain_text,
)


def render_blocks(content: Any, version: str) -> list[dict[str, Any]]:
    """Render content, or a single block, as JSON-ready dicts."""
    items = [content] if isinstance(content, str | bytes | Content) else content
    return [render_block(item, version) for item in items]


def render_block(item: Any, version: str) -> dict[str, Any]:
    """Render one block as a JSON-ready dict. Content of later versions becomes text.

    A block with fields of wrong types becomes text too, because clients drop a whole result for one invalid block.
    """
    try:
        content = item if type(item) in _RENDERERS else to_block(item)
        block = _render_content(content, version)
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, Unreadable) else type(error).__name__
        return make_text_block(f"[{type(item).__name__} content that cannot be shown: {to_plain(reason)}]")
    if annotations := select_annotations(content.annotations):
        block["annotations"] = annotations
    if has_feature(version, STRUCTURED) and (meta := to_plain_mapping(content.meta)):
        block["_meta"] = meta
    return block


def _render_content(content: Content, version: str) -> dict[str, Any]:
    """Render content in its own form, or as text if `version` does not have this form."""
    content_type = next((base for base in type(content).__mro__ if base in _RENDERERS), None)
    if content_type is None:
        # MCP does not define this class, so its fields are shown as text.
        return make_text_block(to_plain_text(content))
    render, first_version = _RENDERERS[content_type]
    if has_feature(version, first_version):
        return render(content)
    if isinstance(content, ResourceLink):
        return make_text_block(f"[resource {to_plain_text(content.name)}: {to_plain_text(content.uri)}]")
    type_name = type(content).__name__.lower()
    return make_text_block(f"[{type_name} content, which this client's protocol version does not support]")


def _make_binary_renderer(block_type: str) -> Callable[[Any], dict[str, Any]]:
    """Return the renderer of images or audio."""
    return lambda content: {
        "type": block_type,
        "data": _encode_base64(content.data),
        "mimeType": to_plain_text(content.mime_type),
    }


def _encode_base64(data: Any) -> str:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Unreadable(f"its data must be bytes, found {type(data).__name__}")
    return base64.b64encode(bytes(data)).decode()


def _render_embedded_resource(content: Any) -> dict[str, Any]:
    resource: dict[str, Any] = {"uri": to_plain_text(content.uri)}
    if content.mime_type:
        resource["mimeType"] = to_plain_text(content.mime_type)
    if isinstance(content.content, bytes | bytearray | memoryview):
        resource["blob"] = _encode_base64(content.content)
    else:
        resource["text"] = to_plain_text(content.content)
    if content.resource_meta and (meta := to_plain_mapping(content.resource_meta)):
        resource["_meta"] = meta
    return {"type": "resource", "resource": resource}


def _render_resource_link(content: Any) -> dict[str, Any]:
    link: dict[str, Any] = {
        "type": "resource_link",
        "uri": to_plain_text(content.uri),
        "name": to_plain_text(content.name),
    }
    for key, value in (("title", content.title), ("description", content.description), ("mimeType", content.mime_type)):
        if value is not None:
            link[key] = to_plain_text(value)
    if isinstance(content.size, int):
        link["size"] = content.size
    if content.icons and (icons := render_icons(content.icons)):
        link["icons"] = icons
    return link


_RENDERERS: dict[type[Content], tuple[Callable[[Any], dict[str, Any]], str]] = {
    Text: (lambda content: make_text_block(to_plain_text(content.text)), ""),
    Image: (_make_binary_renderer("image"), ""),
    Audio: (_make_binary_renderer("audio"), AUDIO),
    EmbeddedResource: (_render_embedded_resource, ""),
    ResourceLink: (_render_resource_link, STRUCTURED),
}
"""The renderer of each class of content, and the first protocol version that has it."""
