"""LlamaIndex tools: `BaseTool` of llama-index-core and all that inherit from it."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.blocks import of_base64, of_data, of_file, of_url
from mcp_bridge.frameworks.shapes import Json, described, is_a, named, of_model
from mcp_bridge.runtime.asyncio_runner import on_asyncio
from mcp_bridge.wire.values import as_text

PACKAGE = "llama_index"
_HELD = (
    ("image", "image_mimetype", "image"),
    ("audio", "format", "audio"),
    ("video", "video_mimetype", "video"),
    ("data", "document_mimetype", "application"),
)
"""Where a block of each kind has its bytes and their media type, and how that begins where it is a mere ending."""


def fits(thing: object) -> bool:
    """Whether this is a tool of LlamaIndex."""
    return is_a(thing, PACKAGE, "BaseTool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one that needs a workflow's context."""
    tool: Any = thing
    metadata = tool.metadata
    name = named(metadata, "LlamaIndex")
    if getattr(tool, "requires_context", False) is True:
        raise SourceError(
            f"the LlamaIndex tool '{name}' needs the context of a workflow as '{tool.ctx_param_name}', which only an "
            "agent has. Publish a function without it"
        )
    return ToolEntry(name, described(metadata), _handler(tool), of_model(metadata.get_parameters_dict()))


def _handler(tool: Any) -> Any:
    """Asynchronous where the tool is; a plain function runs in a thread."""

    def in_thread(data: Json) -> Any:
        call = getattr(tool, "call", tool)
        return _read(call(**(data or {})))

    async def on_loop(data: Json) -> Any:
        return _read(await on_asyncio(partial(tool.acall, **(data or {}))))

    function = getattr(tool, "real_fn", None)
    plain = not hasattr(tool, "acall") or (function is not None and not inspect.iscoroutinefunction(function))
    return in_thread if plain else on_loop


def _read(answer: Any) -> Any:
    """What a tool said: its blocks, the raw value beside them where that is an object, and whether it is an error."""
    if not is_a(answer, PACKAGE, "ToolOutput"):
        return answer
    blocks = getattr(answer, "blocks", None)
    content = [_block(block) for block in blocks] if isinstance(blocks, list) else [Text(str(answer.content))]
    if answer.is_error:
        text = all(isinstance(block, Text) for block in content)
        said: Json = {"error": str(answer.content)} if text else {"content": content, "error": str(answer.content)}
        return ToolResult(success=False, code="tool_error", **said)
    raw = answer.raw_output
    return ToolResult(success=True, content=content, output=raw if isinstance(raw, dict) else None)


def _block(block: Any) -> Content:
    """A block of LlamaIndex by its shape. Links are not followed."""
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return Text(text)
    for key, kind, family in _HELD:
        if hasattr(block, key):
            return _held(block, getattr(block, key), _mime_type(getattr(block, kind, None), family))
    return Text(as_text(block))


def _held(block: Any, data: Any, mime_type: str | None) -> Content:
    """The bytes of a block, which LlamaIndex keeps as base64, or where they are."""
    if isinstance(data, bytes | str):
        made = of_base64(data, mime_type)
        return of_data(data, mime_type) if isinstance(made, Text) and isinstance(data, bytes) else made
    if hasattr(data, "read"):
        data.seek(0)
        return of_data(data.read(), mime_type)
    if block.path is not None:
        return of_file(block.path, mime_type)
    return of_url(str(block.url), mime_type) if block.url is not None else Text("")


def _mime_type(given: Any, family: str) -> str | None:
    if not isinstance(given, str) or not given:
        return None
    return given if "/" in given else f"{family}/{given}"
