"""Renders a ToolResult as an MCP tools/call result, in the form that the client's protocol version supports."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.wire.content import block, text
from mcp_bridge.wire.tools import META, RESULT, WireTool
from mcp_bridge.wire.values import output_text, plain, plain_mapping, text_of
from mcp_bridge.wire.versions import STATELESS, STRUCTURED, carries

COMPLETE = {"resultType": "complete"}
"""The beginning of every complete result in the stateless versions; without it the SDK responds with -32603."""


def to_mcp(result: ToolResult, tool: WireTool, version: str) -> dict[str, Any]:
    """Render a result as a JSON-ready dict. An output that is an object, or declared, is structured content too."""
    rendered: dict[str, Any] = dict(COMPLETE) if carries(version, STATELESS) else {}
    rendered["content"] = _failure(result, version) if result.is_error else _success(result, version)
    if result.is_error:
        rendered["isError"] = True
    elif carries(version, STRUCTURED):
        rendered |= _structured(result.output, tool, version)
    if carries(version, STRUCTURED) and (meta := _meta(result)):
        rendered["_meta"] = meta
    return rendered


def _success(result: ToolResult, version: str) -> list[dict[str, Any]]:
    if result.content is not None:
        return _blocks(result.content, version)
    return [] if result.output is None else [text(output_text(result))]


def _failure(result: ToolResult, version: str) -> list[dict[str, Any]]:
    """Render the error first, then what else the tool returned."""
    words = str(plain(result.error_text))
    blocks = [text(words or "The tool failed without an error message.")]
    if result.content is not None:
        return [*(blocks if words else []), *_blocks(result.content, version)] or blocks
    if result.output is None or (output := output_text(result)) == words:
        return blocks
    return [*(blocks if words else []), text(output)]


def _blocks(content: Any, version: str) -> list[dict[str, Any]]:
    items = [content] if isinstance(content, str | bytes | Content) else content
    return [block(item, version) for item in items]


def _structured(output: Any, tool: WireTool, version: str) -> dict[str, Any]:
    if tool.output_schema is not None:
        if tool.wraps(version):
            return {"structuredContent": {RESULT: output}}
        # A policy may have replaced the output by content. The handshake versions accept objects only.
        if isinstance(output, dict) or carries(version, STATELESS):
            return {"structuredContent": output}
        return {}
    return {"structuredContent": output} if isinstance(output, dict) else {}


def _meta(result: ToolResult) -> dict[str, Any]:
    meta = plain_mapping(result.meta)
    if result.is_error and result.code:
        meta[f"{META}code"] = text_of(plain(result.code))
    return meta
