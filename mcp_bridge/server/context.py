"""The context of a call that a client made."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.registry import ToolRegistry


class ServedContext(CallContext):
    """A running call with a client behind it: progress reaches whoever asked for it."""

    __slots__ = ("_progress", "_request")

    def __init__(self, request: ServerRequestContext[Any, Any], registry: ToolRegistry) -> None:
        super().__init__(
            caller=registry,
            protocol_version=request.protocol_version,
            request_id=str(request.request_id),
            meta=request.meta,
        )
        self._request = request
        self._progress: float | None = None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification where the client gave a token; a value that does not grow is left out."""
        if self._progress is not None and progress <= self._progress:
            return
        self._progress = progress
        await self._request.session.report_progress(progress, total, message)
