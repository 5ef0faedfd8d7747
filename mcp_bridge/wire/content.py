"""Renders content blocks, annotations and icons in the form that the client's protocol version supports."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge.wire.protocol_versions import AUDIO, STRUCTURED, has_feature
from mcp_bridge.wire.values import Unreadable, as_block, as_text, sanitize_text, to_plain, to_plain_mapping

logger = logging.getLogger("mcp_bridge.wire")


def render_block(item: Any, version: str) -> dict[str, Any]:
    """Render one block as a JSON-ready dict. Kinds of content that `version` does not know become text.

    A block whose fields have wrong types becomes text too: clients drop a whole result because of one invalid block.
    """
    try:
        content = as_block(item)
        block = _render_content(content, version)
    except (TypeError, ValueError) as error:
        why = str(error) if isinstance(error, Unreadable) else type(error).__name__
        return make_text_block(f"[{type(item).__name__} content that cannot be shown: {to_plain(why)}]")
    if annotations := select_annotations(content.annotations):
        block["annotations"] = annotations
    if has_feature(version, STRUCTURED) and (meta := to_plain_mapping(content.meta)):
        block["_meta"] = meta
    return block


def _render_content(content: Content, version: str) -> dict[str, Any]:
    kind = next((kind for kind in type(content).__mro__ if kind in _KINDS), None)
    if kind is None:
        return make_text_block(as_text(content))  # a kind that MCP does not define, by its fields
    make, since = _KINDS[kind]
    if has_feature(version, since):
        return make(content)
    if isinstance(content, ResourceLink):
        return make_text_block(f"[resource {as_text(content.name)}: {as_text(content.uri)}]")
    kind_name = type(content).__name__.lower()
    return make_text_block(f"[{kind_name} content, which this client's protocol version does not support]")


def select_annotations(annotations: Any) -> dict[str, Any]:
    """Return the annotations of content or a resource that MCP defines, if they have the right types."""
    given = to_plain_mapping(annotations)
    audience, priority, modified = given.get("audience"), given.get("priority"), given.get("lastModified")
    kept: dict[str, Any] = {}
    if isinstance(audience, list) and all(role in ("user", "assistant") for role in audience):
        kept["audience"] = audience
    if isinstance(priority, int | float) and 0 <= priority <= 1:
        kept["priority"] = priority
    if isinstance(modified, str):
        kept["lastModified"] = modified
    return kept


def render_icons(given: Iterable[Any]) -> list[dict[str, Any]]:
    """Render the valid icons. Invalid ones are logged and left out."""
    return [icon for icon in map(_render_icon, given) if icon]


def _render_icon(icon: Any) -> dict[str, Any] | None:
    source = icon.get("src") if isinstance(icon, Mapping) else None
    if not isinstance(source, str) or not source.startswith(("https://", "data:")):
        logger.warning("an icon is left out: src must be an https: or data: URL")
        return None
    kept: dict[str, Any] = {"src": sanitize_text(source)}
    if kind := sanitize_text(icon.get("mimeType")):
        kept["mimeType"] = kind
    if (theme := icon.get("theme")) in ("light", "dark"):
        kept["theme"] = theme
    sizes = icon.get("sizes")
    if isinstance(sizes, list | tuple) and all(isinstance(size, str) for size in sizes):
        kept["sizes"] = [sanitize_text(size) for size in sizes]
    return kept


def make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _make_binary_renderer(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda content: {"type": kind, "data": _encode_base64(content.data), "mimeType": as_text(content.mime_type)}


def _encode_base64(data: Any) -> str:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Unreadable(f"its data must be bytes, found {type(data).__name__}")
    return base64.b64encode(bytes(data)).decode()


def _render_embedded_resource(content: Any) -> dict[str, Any]:
    resource: dict[str, Any] = {"uri": as_text(content.uri)}
    if content.mime_type:
        resource["mimeType"] = as_text(content.mime_type)
    if isinstance(content.content, bytes | bytearray | memoryview):
        resource["blob"] = _encode_base64(content.content)
    else:
        resource["text"] = as_text(content.content)
    return {"type": "resource", "resource": resource}


def _render_resource_link(content: Any) -> dict[str, Any]:
    link: dict[str, Any] = {"type": "resource_link", "uri": as_text(content.uri), "name": as_text(content.name)}
    extras = {"title": content.title, "description": content.description, "mimeType": content.mime_type}
    link |= {key: as_text(value) for key, value in extras.items() if value is not None}
    if isinstance(content.size, int):
        link["size"] = content.size
    return link


_KINDS: dict[type[Content], tuple[Callable[[Any], dict[str, Any]], str]] = {
    Text: (lambda content: make_text_block(as_text(content.text)), ""),
    Image: (_make_binary_renderer("image"), ""),
    Audio: (_make_binary_renderer("audio"), AUDIO),
    EmbeddedResource: (_render_embedded_resource, ""),
    ResourceLink: (_render_resource_link, STRUCTURED),
}
