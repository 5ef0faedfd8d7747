"""Renders content blocks in the form that the client's protocol version supports."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge.wire.protocol_versions import AUDIO, STRUCTURED, has_feature
from mcp_bridge.wire.values import Unreadable, as_block, as_text, to_plain, to_plain_mapping


def render_block(item: Any, version: str) -> dict[str, Any]:
    """Render one block as a JSON-ready dict. Kinds of content that `version` does not know become text.

    A block whose fields have wrong types becomes text too: clients drop a whole result because of one invalid block.
    """
    try:
        content = as_block(item)
        made = _render_content(content, version)
    except (TypeError, ValueError) as error:
        why = str(error) if isinstance(error, Unreadable) else type(error).__name__
        return make_text_block(f"[{type(item).__name__} content that cannot be shown: {to_plain(why)}]")
    if shown := select_annotations(content.annotations):
        made["annotations"] = shown
    if has_feature(version, STRUCTURED) and (meta := to_plain_mapping(content.meta)):
        made["_meta"] = meta
    return made


def _render_content(content: Content, version: str) -> dict[str, Any]:
    kind = next((kind for kind in type(content).__mro__ if kind in _KINDS), None)
    if kind is None:
        return _render_unknown_content(content)
    make, since = _KINDS[kind]
    return make(content) if has_feature(version, since) else make_text_block(f"[{_describe_content(content)}]")


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


def make_text_block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _render_text(content: Any) -> dict[str, Any]:
    return make_text_block(as_text(content.text))


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
    made: dict[str, Any] = {"type": "resource_link", "uri": as_text(content.uri), "name": as_text(content.name)}
    extras = {"title": content.title, "description": content.description, "mimeType": content.mime_type}
    made |= {key: as_text(value) for key, value in extras.items() if value is not None}
    if isinstance(content.size, int):
        made["size"] = content.size
    return made


def _render_unknown_content(content: Content) -> dict[str, Any]:
    return make_text_block(as_text(content))


def _describe_content(content: Content) -> str:
    if isinstance(content, ResourceLink):
        return f"resource {as_text(content.name)}: {as_text(content.uri)}"
    return f"{type(content).__name__.lower()} content, which this client's protocol version does not support"


_KINDS: dict[type[Content], tuple[Callable[[Any], dict[str, Any]], str]] = {
    Text: (_render_text, ""),
    Image: (_make_binary_renderer("image"), ""),
    Audio: (_make_binary_renderer("audio"), AUDIO),
    EmbeddedResource: (_render_embedded_resource, ""),
    ResourceLink: (_render_resource_link, STRUCTURED),
}
