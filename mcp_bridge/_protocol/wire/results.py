"""Renders a ToolResult as an MCP tools/call result, in the form that the client's protocol version supports."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.protocol_versions import STATELESS, STRUCTURED, has_feature
from mcp_bridge._protocol.wire.tools import META, RESULT, WireTool
from mcp_bridge._protocol.wire.values import get_output_text, make_text_block, to_plain, to_plain_mapping, to_text

ERROR_CODE = f"{META}code"
"""The key of the stable code of a failure in `_meta`."""
COMPLETE = {"resultType": "complete"}
"""The field that every complete result in the stateless versions needs."""


def to_mcp(result: ToolResult, tool: WireTool, version: str) -> dict[str, Any]:
    """Render a result as a JSON-ready dict. An output that is an object, or declared, is structured content too."""
    rendered: dict[str, Any] = dict(COMPLETE) if has_feature(version, STATELESS) else {}
    rendered["content"] = _render_failure(result, version) if result.is_error else _render_success(result, version)
    if result.is_error:
        rendered["isError"] = True
    is_structured = not result.is_error or (result.content is not None and result.output is not None)
    if (
        is_structured
        and has_feature(version, STRUCTURED)
        and not (tool.shows_injections and _has_injections(result.content))
    ):
        rendered |= _render_structured_content(result.output, tool, version)
    if result.meta is not None or result.is_error:
        rendered |= render_meta(result, version)
    return rendered


def render_meta(result: ToolResult, version: str) -> dict[str, Any]:
    """Return the member `_meta` of a result, with the code of a failure; nothing if it is empty."""
    if not has_feature(version, STRUCTURED):
        return {}
    meta = to_plain_mapping(result.meta) if result.meta is not None else {}
    if result.is_error and result.code:
        meta[ERROR_CODE] = to_text(to_plain(result.code))
    return {"_meta": meta} if meta else {}


def _has_injections(content: Any) -> bool:
    from mcp_bridge._contracts.content import Content, InjectedText

    if content is None or isinstance(content, str | bytes | Content):
        return isinstance(content, InjectedText)
    return any(isinstance(item, InjectedText) for item in content)


def _render_success(result: ToolResult, version: str) -> list[dict[str, Any]]:
    if result.content is not None:
        return _render_blocks(result.content, version)
    return [] if result.output is None else [make_text_block(get_output_text(result))]


def _render_failure(result: ToolResult, version: str) -> list[dict[str, Any]]:
    """Render the error first, then what else the tool returned."""
    text = str(to_plain(result.error_text))
    blocks = [make_text_block(text or "The tool failed without an error message.")]
    if result.content is not None:
        is_in_content = not text or join_texts(result.content) == text
        return [*([] if is_in_content else blocks), *_render_blocks(result.content, version)] or blocks
    if result.output is None or (output := get_output_text(result)) == text:
        return blocks
    return [*(blocks if text else []), make_text_block(output)]


def join_texts(content: Any) -> str:
    """Return the texts of blocks, without those that policies have injected."""
    from mcp_bridge._contracts.content import Content, InjectedText, Text

    items = (content,) if isinstance(content, str | bytes | Content) else content
    return "\n".join(item.text for item in items if isinstance(item, Text) and not isinstance(item, InjectedText))


def _render_blocks(content: Any, version: str) -> list[dict[str, Any]]:
    from mcp_bridge._protocol.wire.content import (
        render_blocks,  # a start does not need it, nor do results that are only output
    )

    return render_blocks(content, version)


def _render_structured_content(output: Any, tool: WireTool, version: str) -> dict[str, Any]:
    if tool.output_schema is not None:
        if tool.needs_wrapper(version):
            return {"structuredContent": {RESULT: output}}
        # A policy may have replaced the output by content. The handshake versions accept objects only.
        if isinstance(output, dict) or (output is not None and has_feature(version, STATELESS)):
            return {"structuredContent": output}
        return {}
    return {"structuredContent": output} if isinstance(output, dict) else {}
