"""FastMCP servers in this process: their tools, called through FastMCP's own client.

Resources and prompts of the server are not published, and its tools cannot ask the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, Self

import anyio

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.common import Json, is_a, make_failure
from mcp_bridge.frameworks.toolboxes import CLOSE_TIMEOUT, Toolbox
from mcp_bridge.runtime.event_loop import is_on_asyncio
from mcp_bridge.wire.content_reader import from_block
from mcp_bridge.wire.values import as_text

PACKAGE = "fastmcp"


def build_toolbox(server: Any) -> Toolbox:
    """Build a toolbox over a server. Opening it raises SourceError on event loops other than asyncio's."""
    return _ServerToolbox(server)


class _ServerToolbox(Toolbox):
    """The client uses the handshake era, in which a server announces changes without a subscription.

    FastMCP announces them when a tool changes what its session sees, or sends the notification, but not for `add_tool`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._client: Any = None
        self._change = anyio.Event()

    async def __aenter__(self) -> Self:
        if not is_on_asyncio():
            raise SourceError(f"the FastMCP server '{self._server.name}' runs only on asyncio. Use that event loop")
        client = import_module(PACKAGE).Client(self._server, mode="legacy", message_handler=self._handle_message)
        self._client = await client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        client, self._client = self._client, None
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):  # also ends the lifespan of the server
            await client.__aexit__(*exc_info)

    async def list_entries(self) -> Sequence[ToolEntry]:
        return [self._build_entry(_to_json(tool)) for tool in await self._client.list_tools()]

    async def wait_for_change(self) -> None:
        await self._change.wait()
        self._change = anyio.Event()

    async def _handle_message(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._change.set()

    def _build_entry(self, tool: Json) -> ToolEntry:
        meta = tool.get("_meta") or {}
        own = meta.get(PACKAGE)
        tags = own.get("tags") if isinstance(own, dict) else None
        return ToolEntry(
            tool["name"],
            tool.get("description") or "",
            self._build_handler(tool["name"]),
            tool.get("inputSchema") or {},
            tool.get("outputSchema") or {},
            [str(tag) for tag in tags or ()],
            title=tool.get("title"),
            annotations=tool.get("annotations") or {},
            icons=tool.get("icons") or [],
            meta=meta,
        )

    def _build_handler(self, name: str) -> Any:
        async def run_tool(data: Json, ctx: CallContext) -> ToolResult:
            call = partial(self._client.call_tool_mcp, name, dict(data or {}), progress_handler=ctx.progress)
            try:
                return _convert_result(_to_json(await call()))
            except Exception as error:
                if not is_a(error, "mcp", "MCPError"):
                    raise
                return make_failure(str(error))

        return run_tool


def _to_json(model: Any) -> Json:
    data: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


def _convert_result(result: Json) -> ToolResult:
    blocks = [_convert_block(item) for item in result.get("content") or ()]
    meta = result.get("_meta")
    if not result.get("isError"):
        return ToolResult(success=True, output=result.get("structuredContent"), content=blocks, meta=meta)
    error = "\n".join(block.text for block in blocks if isinstance(block, Text))
    others = [block for block in blocks if not isinstance(block, Text)]
    return ToolResult(success=False, error=error, content=others or None, code="tool_error", meta=meta)


def _convert_block(item: Json) -> Content:
    block = from_block(item)
    return block if isinstance(block, Content) else Text(as_text(item))
