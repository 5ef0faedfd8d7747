"""Middleware that records calls."""

from __future__ import annotations

from typing import Any

from mcp_bridge import CallContext, ToolCall, ToolResult
from mcp_bridge.middleware import Stage


class CallRecorder:
    """Middleware with a record of the calls."""

    stage = Stage.DECIDE

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
        self.calls.append(call)
        result: ToolResult = await call_next(call, ctx)
        return result
