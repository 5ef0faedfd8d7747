"""The built-in tools `search_tools` and `call_tool`, for clients to find and call tools that are not in tools/list."""

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

DEFAULT_LIMIT = 5
"""The number of tools that a search returns by default."""
MAX_LIMIT = 50
"""The maximum number of tools that a search returns."""
_SHOWN_FIELDS = ("name", "title", "description", "inputSchema")


class ToolSearch:
    """Finds tools by what they do. After a change of the tools, the next search builds the index again."""

    def __init__(self, registry: ToolRegistry, tools: ToolIndex) -> None:
        self._registry = registry
        self._tools = tools
        self._version = -1
        self._index: SearchIndex | None = None
        self._lock = anyio.Lock()

    def build_tools(self) -> list[BuiltInTool]:
        """Build `search_tools` and `call_tool`."""
        query = {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What the tool should do."}
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": f"Default: {DEFAULT_LIMIT}."}
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
            names = await to_thread.run_sync(index.find_names, data["query"], data.get("limit", DEFAULT_LIMIT))
        results = []
        for name in names:
            tool = self._tools.get(name)
            # In the meantime, the tool may have been removed.
            if tool is not None:
                listing = tool.render_listing(ctx.protocol_version)
                results.append({key: listing[key] for key in _SHOWN_FIELDS if key in listing})
        hint = None if results else [Text("No tool matches these words. Search again with other words.")]
        return ToolResult(success=True, output={"tools": results}, content=hint)

    async def _refresh_index(self) -> SearchIndex:
        # The version is read before the list, so the list can only be newer.
        version = self._registry.tools.version
        if self._index is None or version != self._version:
            # Only the first search needs this module, not the start.
            from mcp_bridge._server.tools.search_index import SearchIndex

            # Building the index of 10,000 tools takes 0.2 seconds.
            self._index = await to_thread.run_sync(SearchIndex, self._tools.list_tools())
            self._version = version
        return self._index

    def _find_target(self, arguments: Mapping[str, Any], request: Request, _: WireTool) -> Target | None:
        reference = read_reference(arguments, "name")
        if reference is None:
            return None
        name, tool_arguments = reference
        published = self._tools.find_published(name)
        if published is None:
            return None
        return Target(*published, tool_arguments, "$.arguments")

    async def _report_unknown_tool(self, data: Any, ctx: RunningCall) -> ToolResult:
        """Call a tool that was not published when the call arrived, or report that it is unknown."""
        name, arguments = data["name"], data.get("arguments")
        substitute = await self._registry.find_absent(name, ctx.client)
        # In the meantime, a source may have published the tool.
        tool = self._tools.get(name)
        if tool is not None:
            return await ctx.invoke(tool.definition.name, arguments)
        if substitute is not None:
            return await ctx.invoke_entry(substitute, arguments)
        raise make_not_found_error(name, [tool.name for tool in self._tools.list_tools()])
