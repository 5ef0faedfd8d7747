"""What a resource's handler answers, as contents of resources/read (MCP server/resources)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, Text
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.wire.content import block
from mcp_bridge.wire.values import as_text, from_bytes, plain, text_of

JSON = "application/json"


def to_contents(answer: Any, uri: str, mime_type: str | None) -> ToolResult:
    """Any answer as a result whose content is embedded resources, at least one.

    Text, bytes and JSON values are at `uri`, and an `EmbeddedResource` that does not say where it is; a list that has
    one in it is several. Raises ValueError for what contains itself or cannot be read.
    """
    if isinstance(answer, ToolResult):
        return answer if answer.is_error else _contents(_given(answer), uri, mime_type)
    return _contents(answer, uri, mime_type)


def contents(result: ToolResult, version: str) -> list[dict[str, Any]]:
    """The contents of a result that `to_contents` made, as JSON-ready dicts."""
    made = []
    for item in result.content or ():
        shown = block(item, version)
        uri = as_text(item.uri) if isinstance(item, EmbeddedResource) else ""
        resource: dict[str, Any] = shown.get("resource") or {"uri": uri, "text": shown["text"]}
        made.append({**resource, **({"_meta": shown["_meta"]} if "_meta" in shown else {})})
    return made


def _given(result: ToolResult) -> Any:
    if result.content is not None:
        return list(result.content)
    return result.output


def _contents(answer: Any, uri: str, mime_type: str | None) -> ToolResult:
    several = isinstance(answer, list | tuple) and any(isinstance(item, Content | bytes) for item in answer)
    items = answer if several else [answer]
    return ToolResult(success=True, content=tuple(_embedded(item, uri, mime_type) for item in items))


def _embedded(item: Any, uri: str, mime_type: str | None) -> EmbeddedResource:
    if isinstance(item, EmbeddedResource):
        return item if item.uri else replace(item, uri=uri)
    if isinstance(item, Text):
        return EmbeddedResource(uri, item.text, mime_type or "text/plain", meta=item.meta)
    if isinstance(item, Image | Audio):
        return EmbeddedResource(uri, item.data, item.mime_type, meta=item.meta)
    if isinstance(item, bytes | bytearray | memoryview):
        return EmbeddedResource(uri, bytes(item), mime_type or _mime_type(bytes(item)))
    made = plain(item)  # a date or a path is text then
    return EmbeddedResource(uri, text_of(made), mime_type or ("text/plain" if isinstance(made, str) else JSON))


def _mime_type(data: bytes) -> str:
    kind = from_bytes(data)
    found: str | None = getattr(kind, "mime_type", None)
    return found or "application/octet-stream"
