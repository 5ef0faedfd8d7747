"""Turns the return values of resource handlers into results, and renders them for resources/read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, Text
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.values import detect_mime_type, to_data, to_plain_text, to_text

JSON = "application/json"


def to_contents(value: Any, uri: str, mime_type: str | None) -> ToolResult:
    """Return a handler's return value as a result with one or more embedded resources.

    Text, bytes, JSON values and an `EmbeddedResource` without a URI get `uri`. A list with content or bytes becomes
    several resources. Raises ValueError for an unreadable value or one that contains itself.
    """
    meta = None
    if isinstance(value, ToolResult):
        if value.is_error:
            return value
        meta = value.meta
        value = list(value.content) if value.content is not None else value.output
    is_list = isinstance(value, list | tuple) and any(isinstance(item, Content | bytes) for item in value)
    items = value if is_list else [value]
    contents = tuple(_to_embedded_resource(item, uri, mime_type) for item in items)
    return ToolResult(success=True, content=contents, meta=meta)


def render_contents(result: ToolResult, version: str) -> list[dict[str, Any]]:
    """Render the contents of a result of `to_contents` as JSON-ready dicts."""
    contents = []
    for item in result.content or ():
        block = render_block(item, version)
        resource: dict[str, Any] | None = block.get("resource")
        if resource is None:
            # `render_block` could not render the item, and returned a text block that says so.
            uri = to_plain_text(item.uri) if isinstance(item, EmbeddedResource) else ""
            resource = {"uri": uri, "text": block["text"]}
        if "_meta" in block:
            resource["_meta"] = block["_meta"]
        contents.append(resource)
    return contents


def _to_embedded_resource(item: Any, uri: str, mime_type: str | None) -> EmbeddedResource:
    """Return an item with the URI and the media type of its resource, unless it has its own."""
    if isinstance(item, EmbeddedResource):
        return item if item.uri else replace(item, uri=uri)
    if isinstance(item, Text):
        return EmbeddedResource(uri, item.text, mime_type or "text/plain", meta=item.meta)
    if isinstance(item, Image | Audio):
        return EmbeddedResource(uri, item.data, item.mime_type, meta=item.meta)
    if isinstance(item, bytes | bytearray | memoryview):
        return EmbeddedResource(uri, bytes(item), mime_type or detect_mime_type(bytes(item)))
    # Some objects, such as dates and paths, become text here too.
    value = to_data(item)
    default_type = "text/plain" if isinstance(value, str) else JSON
    return EmbeddedResource(uri, to_text(value), mime_type or default_type)
