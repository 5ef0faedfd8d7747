"""`search_tools` and `call_tool`: clients find and call tools that tools/list does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.listing import CALL_TOOL, SEARCH_TOOLS
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._engine.registry import ToolRegistry, make_not_found_error
from mcp_bridge._protocol.wire.tools import WireTool
from mcp_bridge._server.requests import Request
from mcp_bridge._server.tools.methods import TEXT, BuiltInTool, Target, ToolIndex, build_tool, read_reference

if TYPE_CHECKING:
    from mcp_bridge._server.tools.search_index import SearchIndex

FOUND = 5
"""How many tools a search returns by default."""
MOST_FOUND = 50
_SHOWN = ("name", "title", "description", "inputSchema")


class ToolSearch:
    """Finds tools by what they do. The index is built when it is first used after a change of the tools."""

    def __init__(self, registry: ToolRegistry, tools: ToolIndex) -> None:
        self._registry = registry
        self._tools = tools
        self._version = -1
        self._index: SearchIndex | None = None
        self._lock = anyio.Lock()

    def build_tools(self) -> list[BuiltInTool]:
        """Build `search_tools` and `call_tool`."""
        query = {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What the tool should do."}
        limit = {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "description": f"Default: {FOUND}."}
        arguments = {"type": "object", "description": "Its arguments, as its input schema describes them."}
        return [
            build_tool(
                self._search,
                SEARCH_TOOLS,
                "Search the tools of this server, most of which are not listed. Returns the name, description and "
                f"input schema of the best matches. Call them with {CALL_TOOL}.",
                {"query": query, "limit": limit},
                ["query"],
            ),
            build_tool(
                self._report_unknown_tool,
                CALL_TOOL,
                f"Call a tool of this server that is not listed. Find its name and input schema with {SEARCH_TOOLS}.",
                {"name": TEXT, "arguments": arguments},
                ["name"],
                reads=False,
                find_target=self._find_target,
            ),
        ]

    async def _search(self, data: Any, ctx: RunningCall) -> ToolResult:
        self._registry.report_listing()
        async with self._lock:
            index = await self._refresh_index()
            names = await to_thread.run_sync(index.find_names, data["query"], data.get("limit", FOUND))
        tools = [tool.render_listing(ctx.protocol_version) for tool in map(self._tools.get, names) if tool is not None]
        results = [{key: tool[key] for key in _SHOWN if key in tool} for tool in tools]
        hint = None if results else [Text("No tool matches these words. Search again with other words.")]
        return ToolResult(success=True, output={"tools": results}, content=hint)

    async def _refresh_index(self) -> SearchIndex:
        # The version is read before the list, so the list can only be newer.
        version = self._registry.tools.version
        if self._index is None or version != self._version:
            # A start does not need it.
            from mcp_bridge._server.tools.search_index import SearchIndex

            # This takes 0.2 s for 10,000 tools.
            self._index = await to_thread.run_sync(SearchIndex, self._tools.list_tools())
            self._version = version
        return self._index

    def _find_target(self, given: Mapping[str, Any], request: Request, _: WireTool) -> Target | None:
        if (reference := read_reference(given, "name")) is None:
            return None
        name, arguments = reference
        published_tool = self._tools.find_published(name)
        return Target(*published_tool, arguments, "$.arguments") if published_tool is not None else None

    async def _report_unknown_tool(self, data: Any, ctx: RunningCall) -> ToolResult:
        name, arguments = data["name"], data.get("arguments")
        substitute = await self._registry.find_absent(name, ctx.client)
        if (tool := self._tools.get(name)) is not None:
            return await ctx.invoke(tool.definition.name, arguments)
        if substitute is not None:
            return await ctx.invoke_entry(substitute, arguments)
        raise make_not_found_error(name, [tool.name for tool in self._tools.list_tools()])
