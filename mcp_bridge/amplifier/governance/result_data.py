"""A result as hooks see it, and what they have made of it, as the bridge has it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_bridge.amplifier import results
from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.wire.blocks import from_block
from mcp_bridge.wire.content import block
from mcp_bridge.wire.values import as_text, to_result
from mcp_bridge.wire.versions import STATELESS


def shown(result: ToolResult) -> dict[str, Any]:
    """A result as hooks see it: success, output, error, and content blocks as MCP writes them where it has any."""
    made = results.from_result(result)
    if result.content is not None:
        made["content"] = [block(item, STATELESS) for item in _blocks(result.content)]
    return made


def taken(changed: Any, before: ToolResult, seen: Mapping[str, Any]) -> ToolResult:
    """What hooks have made of a result that they have `seen`: it comes back whole, or as the output alone.

    Content goes with an output that was changed, because it may say the same: what a hook has taken out of one is not
    to reach the client in the other. Raises Unreadable for what cannot be told to a client.
    """
    if hasattr(changed, "model_dump"):
        changed = changed.model_dump()
    if isinstance(changed, str) and before.is_error:
        return replace(before, output=None, error=changed, content=None)
    given = changed.get("content") if isinstance(changed, Mapping) and "success" in changed else None
    whole = {key: value for key, value in changed.items() if key != "content"} if given is not None else changed
    made = replace(results.unwrapped(whole, before), tool_call_id=before.tool_call_id, meta=before.meta)
    if isinstance(given, Sequence) and not isinstance(given, str) and given != seen.get("content"):
        made = replace(made, content=_content(given, before, seen.get("content") or ()))
    return to_result(made)


def _content(given: Sequence[Any], before: ToolResult, seen: Sequence[Any]) -> list[Content]:
    """Blocks as hooks have left them; those that they have not changed are the ones of the result."""
    own, left = _blocks(before.content), list(enumerate(given))
    return [own[place] if place < len(own) and one == seen[place] else content_of(one) for place, one in left]


def content_of(given: Any) -> Any:
    """A content block as hooks have written it, in the form of MCP or of Amplifier; anything else as text."""
    if not isinstance(given, Mapping):
        return Text(as_text(given))
    read = from_block(given)
    if isinstance(read, Content):
        return read
    other = results.to_result({"success": True, "content": [given]}).content  # an image as Amplifier has it
    return other[0] if other else Text(as_text(given))


def _blocks(content: Any) -> list[Any]:
    if content is None:
        return []
    return [content] if isinstance(content, str | bytes | Content) else list(content)
