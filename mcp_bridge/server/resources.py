"""resources/list, resources/templates/list, resources/read, resources/subscribe and resources/unsubscribe."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.answers import Answers, cacheable, shorten, succeeded
from mcp_bridge.server.calls import Calls
from mcp_bridge.server.context import Request
from mcp_bridge.server.cuts import Cuts
from mcp_bridge.server.notices import Notices
from mcp_bridge.server.shelf import Found, Shelf
from mcp_bridge.wire.contents import contents
from mcp_bridge.wire.outcomes import INVALID_PARAMS


class Resources:
    """The registry's resources and templates as MCP methods."""

    def __init__(
        self, registry: ToolRegistry, calls: Calls, answers: Answers, notices: Notices, cuts: Cuts, *, page: int
    ) -> None:
        self._calls = calls
        self._answers = answers
        self._notices = notices
        self._cuts = cuts
        self.shelf = Shelf(registry, page=page)

    async def list(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """resources/list."""
        await self._answers.started()
        return self._answers.page(self.shelf.page, request.protocol_version, params.cursor)

    async def list_templates(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """resources/templates/list."""
        await self._answers.started()
        return self._answers.page(self.shelf.template_page, request.protocol_version, params.cursor)

    async def read(self, request: Request, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        """resources/read. Raises MCPError: not found is -32602 in both eras, with the URI (resources, "Errors")."""
        uri, version = str(params.uri), request.protocol_version
        if (page := await self._cuts.read(uri)) is not None:
            return cacheable({"contents": [page]}, version, ttl_ms=0, scope="private")
        found = await self._find(uri)
        call = ToolCall(id=str(request.request_id), name=uri, arguments=found.arguments, kind="resource")
        result = await self._calls.answer(found.prepared, call, request)
        if isinstance(result, dict):
            return result
        read = {"contents": contents(succeeded(result, version, uri=uri), version)}
        return cacheable(read, version, ttl_ms=0, scope="private")  # made for this call, for all we know

    async def subscribe(self, request: Request, params: types.SubscribeRequestParams) -> dict[str, Any]:
        """resources/subscribe of the handshake era."""
        await self._find(str(params.uri))
        self._notices.subscribe(request, str(params.uri))
        return {}

    async def unsubscribe(self, request: Request, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        """resources/unsubscribe of the handshake era; one that was not subscribed is fine."""
        self._notices.unsubscribe(request, str(params.uri))
        return {}

    async def _find(self, uri: str) -> Found:
        await self._answers.started()
        found = self.shelf.find(uri)
        if found is None:
            uri = shorten(uri)
            raise MCPError(INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
        return found
