"""Content blocks as MCP writes them, down to what the client's version can read."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge.wire.values import plain, text_of
from mcp_bridge.wire.versions import AUDIO, STRUCTURED, carries


def block(content: Content, version: str) -> dict[str, Any]:
    """One block as a JSON-ready dict that `version` knows; text stands in for kinds that it does not."""
    make, since = _KINDS.get(type(content), (_unknown, ""))
    made = make(content) if carries(version, since) else text(f"[{_in_words(content)}]")
    if content.annotations:
        made["annotations"] = plain(content.annotations)
    if content.meta and carries(version, STRUCTURED):
        made["_meta"] = plain(content.meta)
    return made


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def _text(content: Any) -> dict[str, Any]:
    return text(text_of(plain(content.text)))


def _binary(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda content: {"type": kind, "data": _base64(content.data), "mimeType": str(content.mime_type)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _embedded(content: Any) -> dict[str, Any]:
    resource: dict[str, Any] = {"uri": str(content.uri)}
    if content.mime_type:
        resource["mimeType"] = str(content.mime_type)
    if isinstance(content.content, bytes | bytearray):
        resource["blob"] = _base64(bytes(content.content))
    else:
        resource["text"] = text_of(plain(content.content))
    return {"type": "resource", "resource": resource}


def _link(content: Any) -> dict[str, Any]:
    made = {"type": "resource_link", "uri": str(content.uri), "name": str(content.name)}
    extras = {
        "title": content.title,
        "description": content.description,
        "mimeType": content.mime_type,
        "size": content.size,
    }
    return made | {key: value for key, value in extras.items() if value is not None}


def _unknown(content: Content) -> dict[str, Any]:
    return text(text_of(plain(content)))


def _in_words(content: Content) -> str:
    if isinstance(content, ResourceLink):
        return f"resource {content.name}: {content.uri}"
    return f"{type(content).__name__.lower()} content, which this client's protocol version cannot carry"


_KINDS: dict[type[Content], tuple[Callable[[Any], dict[str, Any]], str]] = {
    Text: (_text, ""),
    Image: (_binary("image"), ""),
    Audio: (_binary("audio"), AUDIO),
    EmbeddedResource: (_embedded, ""),
    ResourceLink: (_link, STRUCTURED),
}
