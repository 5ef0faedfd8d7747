"""What a prompt's handler answers, as messages of prompts/get (MCP server/prompts); conversations to sample from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.prompt import Message
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.wire.content import block
from mcp_bridge.wire.values import Unreadable, as_block, plain, plain_mapping

ROLES = ("user", "assistant")


def to_messages(answer: Any) -> ToolResult:
    """Any answer as a result whose content is messages; what is no `Message` is said by the user.

    Raises Unreadable for what contains itself, cannot be read, or is a message of an unknown role.
    """
    if isinstance(answer, ToolResult):
        if answer.is_error:
            return answer
        answer = list(answer.content) if answer.content is not None else answer.output
    if answer is None:
        raise Unreadable("a prompt answers with text, content or messages, found nothing")
    items = answer if isinstance(answer, list | tuple) else [answer]
    return ToolResult(success=True, content=tuple(_message(item) for item in items))


def messages(content: Iterable[Any], version: str) -> list[dict[str, Any]]:
    """Messages as JSON-ready dicts that `version` knows; mappings pass as they are."""
    return [_wire(item, version) for item in content]


def _message(item: Any) -> Message:
    if isinstance(item, Mapping) and "role" in item and "content" in item:
        item = Message(item["content"], item["role"])
    if not isinstance(item, Message):
        return Message(as_block(item))
    if item.role not in ROLES:
        raise Unreadable(f"a message's role is one of {', '.join(ROLES)}, found {plain(item.role)!r}")
    return item


def _wire(item: Any, version: str) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return plain_mapping(item)
    message = item if isinstance(item, Message) else Message(item)
    content = message.content if isinstance(message.content, Content) else as_block(message.content)
    return {"role": message.role, "content": block(content, version)}
