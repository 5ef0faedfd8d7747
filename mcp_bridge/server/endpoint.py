"""One MCP endpoint: the registry behind the SDK's server kernel, for any number of connections of either era."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.errors import InvalidArguments, ToolNotFound
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.registry import ToolRegistry
from mcp_bridge.server.context import ServedContext
from mcp_bridge.server.kernel import Kernel
from mcp_bridge.server.listing import Listing
from mcp_bridge.server.notices import Notices
from mcp_bridge.server.paging import BadCursor
from mcp_bridge.wire.outcomes import INVALID_PARAMS, failure
from mcp_bridge.wire.results import COMPLETE, to_mcp
from mcp_bridge.wire.versions import STATELESS, carries

READY_PATIENCE = 20.0
"""Seconds that a first request waits for sources that are still starting; then it sees what there is."""


class Endpoint:
    """A registry as an MCP server. `started` is set once the sources have published (None: they have)."""

    def __init__(
        self, registry: ToolRegistry, identity: Identity | None = None, *, started: anyio.Event | None = None
    ) -> None:
        identity = identity or Identity()
        self.registry = registry
        self._ready = started
        self.notices = Notices()
        self._listing = Listing(registry, page=identity.page)
        hint = CacheHint(ttl_ms=identity.ttl_ms, scope="private" if identity.private else "public")
        self._stateless = {**COMPLETE, "ttlMs": hint.ttl_ms, "cacheScope": hint.scope}
        self.kernel = self._kernel(identity, hint)

    def _kernel(self, identity: Identity, hint: CacheHint) -> Kernel:
        kernel = Kernel(
            identity.name,
            version=identity.version,
            title=identity.title,
            instructions=identity.instructions,
            cache_hints={"server/discover": hint},
            get_tool_input_schema=self._listing.input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self.notices.listen,
        )
        kernel.add_notification_handler("notifications/initialized", types.NotificationParams, self.notices.initialized)
        return kernel

    async def run(self) -> None:
        """Pass change notices on until cancelled."""
        await self.notices.run(self.registry.watch)

    def end_listeners(self) -> None:
        """End every subscriptions/listen stream with its final result."""
        self.notices.end()

    async def _list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        await self._started()
        cursor = params.cursor if params is not None else None
        version = ctx.protocol_version
        try:
            page = self._listing.page(version, cursor)
        except BadCursor as error:
            raise MCPError(INVALID_PARAMS, "Invalid cursor: start again without one", {"cursor": cursor}) from error
        return {**page, **self._stateless} if carries(version, STATELESS) else dict(page)

    async def _call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> dict[str, Any]:
        await self._started()
        tool = self._listing.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}", {"name": params.name})
        context = ServedContext(ctx, self.registry)
        try:
            data = tool.data(params.arguments)
            call = ToolCall(id=context.request_id, name=tool.definition.name, arguments=data)
            result = await self.registry.dispatch(call, context)
        except InvalidArguments as error:
            result = failure(error)
        except ToolNotFound as error:
            raise MCPError(INVALID_PARAMS, error.message, {"name": params.name}) from error
        return to_mcp(result, tool, ctx.protocol_version)

    async def _started(self) -> None:
        if self._ready is not None and not self._ready.is_set():
            with anyio.move_on_after(READY_PATIENCE):
                await self._ready.wait()
