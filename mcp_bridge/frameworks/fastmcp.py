"""FastMCP servers, in this process: their tools with all that they say of themselves, called by FastMCP's own client.

Resources and prompts of the server stay behind, and its tools cannot ask the person at the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import anyio

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.shapes import Json, is_a
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.runtime.event_loop import on_asyncio
from mcp_bridge.wire.blocks import from_block
from mcp_bridge.wire.values import as_text

PACKAGE = "fastmcp"
PATIENCE = 10.0
"""How many seconds a server may take to end."""


def fits(thing: object) -> bool:
    """Whether this is a FastMCP server."""
    return is_a(thing, PACKAGE, "FastMCP")


def toolbox_of(thing: object) -> Toolbox:
    """Its tools; entering raises SourceError where another loop than asyncio's runs."""
    return _Server(thing)


class _Server:
    """A toolbox over a server. The client is of the handshake era, in which changes are told unasked.

    FastMCP tells them where a tool changes what its session sees, or sends the notification: not for `add_tool`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._client: Any = None
        self._news = anyio.Event()

    async def __aenter__(self) -> Self:
        if not on_asyncio():
            raise SourceError(f"the FastMCP server '{self._server.name}' runs on asyncio alone. Use it there")
        made = import_module(PACKAGE).Client(self._server, mode="legacy", message_handler=self._heard)
        self._client = await made.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        with anyio.move_on_after(PATIENCE, shield=True):  # the server's own life ends in here
            await client.__aexit__(kind, error, trace)

    async def entries(self) -> Sequence[ToolEntry]:
        return [self._entry(_plain(tool)) for tool in await self._client.list_tools()]

    async def changed(self) -> None:
        await self._news.wait()
        self._news = anyio.Event()

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._news.set()

    def _entry(self, tool: Json) -> ToolEntry:
        meta = tool.get("_meta") or {}
        own = meta.get(PACKAGE)
        tags = own.get("tags") if isinstance(own, dict) else None
        return ToolEntry(
            tool["name"],
            tool.get("description") or "",
            self._handler(tool["name"]),
            tool.get("inputSchema") or {},
            tool.get("outputSchema") or {},
            [str(tag) for tag in tags or ()],
            title=tool.get("title"),
            annotations=tool.get("annotations") or {},
            icons=tool.get("icons") or [],
            meta=meta,
        )

    def _handler(self, name: str) -> Any:
        async def handler(data: Json, ctx: CallContext) -> ToolResult:
            call = partial(self._client.call_tool_mcp, name, dict(data or {}), progress_handler=ctx.progress)
            try:
                return _read(_plain(await call()))
            except Exception as error:
                if not is_a(error, "mcp", "MCPError"):
                    raise
                return ToolResult(success=False, error=str(error), code="tool_error")

        return handler


def _plain(model: Any) -> Json:
    """A model of the protocol as its JSON."""
    made: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def _read(result: Json) -> ToolResult:
    """An answer of the server: blocks, structured content, and whether it is an error."""
    blocks = [_block(item) for item in result.get("content") or ()]
    meta = result.get("_meta")
    if not result.get("isError"):
        return ToolResult(success=True, output=result.get("structuredContent"), content=blocks, meta=meta)
    error = "\n".join(block.text for block in blocks if isinstance(block, Text))
    others = [block for block in blocks if not isinstance(block, Text)]
    return ToolResult(success=False, error=error, content=others or None, code="tool_error", meta=meta)


def _block(item: Json) -> Content:
    block = from_block(item)
    return block if isinstance(block, Content) else Text(as_text(item))
