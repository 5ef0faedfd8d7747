"""tools/list and tools/call."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.dialects.dialect import Dialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.answers import Answers, refuse_uncapable, shorten
from mcp_bridge.server.calls import Calls
from mcp_bridge.server.context import Request
from mcp_bridge.server.cuts import Cuts
from mcp_bridge.server.listing import Listing
from mcp_bridge.wire.outcomes import INVALID_PARAMS, failure
from mcp_bridge.wire.results import to_mcp


class Tools:
    """The registry's tools as MCP methods."""

    def __init__(
        self, registry: ToolRegistry, calls: Calls, answers: Answers, cuts: Cuts, *, page: int, dialect: Dialect
    ) -> None:
        self._registry = registry
        self._calls = calls
        self._answers = answers
        self._cuts = cuts
        self.listing = Listing(registry, page=page, dialect=dialect)

    async def list(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """tools/list."""
        await self._answers.started()
        return self._answers.page(self.listing.page, request.protocol_version, params.cursor)

    async def call(self, request: Request, params: types.CallToolRequestParams) -> dict[str, Any]:
        """tools/call. Raises MCPError for an unknown tool; everything a model could mend is in the result."""
        await self._answers.started()
        version = request.protocol_version
        tool = self.listing.get(params.name)
        prepared = self._registry.prepared(tool.definition.name) if tool is not None else None
        if tool is None or prepared is None:
            name = shorten(params.name)
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}", {"name": name})
        try:
            data = tool.data(params.arguments)
            call = ToolCall(id=str(request.request_id), name=tool.definition.name, arguments=data)
            result = await self._calls.answer(prepared, call, request)
        except InvalidArguments as error:
            result = failure(error)
        if isinstance(result, dict):
            return result
        refuse_uncapable(result, version)
        made = to_mcp(result, tool, version)
        return await self._cuts.fit(made, version, declared=tool.output_schema is not None)
