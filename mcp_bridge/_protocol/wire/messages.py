"""Turns the return values of prompt handlers into results with messages, and renders messages for the client.

`render_messages` renders those of prompts/get and of sampling requests. Both have the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bridge._contracts.content import Content, Message
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.values import Unreadable, to_block, to_plain, to_plain_mapping

ROLES = ("user", "assistant")


def to_messages(value: Any) -> ToolResult:
    """Return a handler's return value as a result with messages.

    Values other than a `Message` become messages of the user. Raises Unreadable for an unreadable value or one that
    contains itself, and for a message with an unknown role.
    """
    meta = None
    if isinstance(value, ToolResult):
        if value.is_error:
            return value
        meta = value.meta
        value = list(value.content) if value.content is not None else value.output
    if value is None:
        raise Unreadable("a prompt must return text, content or messages, found nothing")
    items = value if isinstance(value, list | tuple) else [value]
    return ToolResult(success=True, content=tuple(_to_message(item) for item in items), meta=meta)


def render_messages(content: Iterable[Any], version: str) -> list[dict[str, Any]]:
    """Render messages as JSON-ready dicts for `version`. Mappings are passed on unchanged."""
    messages = []
    for item in content:
        if isinstance(item, Mapping):
            messages.append(to_plain_mapping(item))
            continue
        message = item if isinstance(item, Message) else Message(item)
        block = message.content if isinstance(message.content, Content) else to_block(message.content)
        messages.append({"role": message.role, "content": render_block(block, version)})
    return messages


def _to_message(item: Any) -> Message:
    """Read a `Message`, a mapping with its fields, a message of the MCP SDK, or content of the user."""
    if isinstance(item, Mapping) and "role" in item and "content" in item:
        item = Message(item["content"], item["role"])
    elif hasattr(type(item), "model_fields") and {"role", "content"} <= set(type(item).model_fields):
        # This is a message of the MCP SDK.
        item = Message(to_block(item.content), item.role)
    if not isinstance(item, Message):
        return Message(to_block(item))
    if item.role not in ROLES:
        raise Unreadable(f"the role of a message must be one of {', '.join(ROLES)}, found {to_plain(item.role)!r}")
    if isinstance(item.content, Mapping):
        block = from_block(item.content)
        if isinstance(block, Content):
            return Message(block, item.role)
    return item
