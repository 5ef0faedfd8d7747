"""The adapter for tools of LlamaIndex: `BaseTool` of llama-index-core and its subclasses, and tool specs."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import (
    Json,
    get_description,
    get_tool_name,
    is_a,
    make_failure,
    to_json_schema,
)
from mcp_bridge._integrations.frameworks.content_blocks import from_base64, from_file, from_url
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox, Toolkit
from mcp_bridge._protocol.wire.values import from_bytes, to_plain_text
from mcp_bridge._runtime.asyncio_runner import run_on_asyncio

PACKAGE = "llama_index"
_MEDIA = (
    ("image", "image_mimetype", "image"),
    ("audio", "format", "audio"),
    ("video", "video_mimetype", "video"),
    ("data", "document_mimetype", "application"),
)
"""For each type of block, the attribute with its bytes, and the one with its media type or only the subtype of it.

The last item completes such a subtype: `wav` becomes `audio/wav`.
"""


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError if it needs the context of a workflow."""
    metadata = tool.metadata
    name = get_tool_name(metadata, "LlamaIndex")
    if getattr(tool, "requires_context", False) is True:
        raise SourceError(
            f"the LlamaIndex tool '{name}' needs the context of a workflow as '{tool.ctx_param_name}', which only an "
            "agent has. Publish a function without it"
        )
    schema = to_json_schema(metadata.get_parameters_dict())
    return ToolEntry(name, get_description(metadata), _build_handler(tool), schema)


def build_toolbox(spec: Any) -> Toolbox:
    return Toolkit(spec.to_tool_list, build_entry)


def _build_handler(tool: Any) -> Any:
    """Return a handler for a thread if the function of the tool is synchronous, else one for the event loop."""

    def run_in_thread(data: Json) -> Any:
        call = getattr(tool, "call", tool)
        return _convert_returned(call(**(data or {})))

    async def run_on_loop(data: Json) -> Any:
        return _convert_returned(await run_on_asyncio(partial(tool.acall, **(data or {}))))

    function = getattr(tool, "real_fn", None)
    is_synchronous = function is not None and not inspect.iscoroutinefunction(function)
    if is_synchronous or not hasattr(tool, "acall"):
        return run_in_thread
    return run_on_loop


def _convert_returned(value: Any) -> Any:
    """Return a ToolOutput as a result: its blocks, and its raw value as structured output if that is an object."""
    if not is_a(value, PACKAGE, "ToolOutput"):
        return value
    blocks = getattr(value, "blocks", None)
    content: list[Content] = [Text(str(value.content))]
    if isinstance(blocks, list):
        content = [_convert_block(block) for block in blocks]
    if value.is_error:
        failure = make_failure(str(value.content))
        # The error has the text of all blocks already.
        if all(isinstance(block, Text) for block in content):
            return failure
        return replace(failure, content=content)
    output = value.raw_output if isinstance(value.raw_output, dict) else None
    return ToolResult(success=True, content=content, output=output)


def _convert_block(block: Any) -> Content:
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return Text(text)
    for key, mime_key, family in _MEDIA:
        if hasattr(block, key):
            return _convert_media(block, getattr(block, key), _build_mime_type(getattr(block, mime_key, None), family))
    return Text(to_plain_text(block))


def _convert_media(block: Any, data: Any, mime_type: str | None) -> Content:
    """Return the data of a block. LlamaIndex stores it as base64, a stream, a path or a URL."""
    if isinstance(data, bytes | str):
        content = from_base64(data, mime_type)
        if isinstance(content, Text) and isinstance(data, bytes):
            return from_bytes(data, mime_type)
        return content
    if hasattr(data, "read"):
        data.seek(0)
        return from_bytes(data.read(), mime_type)
    if block.path is not None:
        return from_file(block.path, mime_type)
    if block.url is not None:
        return from_url(str(block.url), mime_type)
    return Text("")


def _build_mime_type(value: Any, family: str) -> str | None:
    """Return a media type from a media type or its subtype, or None."""
    if not isinstance(value, str) or not value:
        return None
    return value if "/" in value else f"{family}/{value}"
