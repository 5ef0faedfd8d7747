"""How many calls run at once, and how many may wait in the queue."""

from __future__ import annotations

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import Overloaded
from mcp_bridge.contracts.extension import CallNext
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.runtime.limiter import Token, Tokens


class Places:
    """At most `size` calls at once; `queue` more wait in turn, others are refused. `of` says whose places they are."""

    def __init__(self, size: int, *, queue: int, of: str = "") -> None:
        self._tokens = Tokens(size)
        self._queue = queue
        self._of = of

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """Go on once there is a place. While a person is asked it is lent to others. Raises Overloaded."""
        if not self._tokens.at_once():
            if self._tokens.waiting >= self._queue:
                raise Overloaded(f"Too many calls{self._of} run and wait. Try again in a moment.")
            await self._tokens.take()
        place = Token(self._tokens)
        ctx.holds.append(place)
        try:
            return await call_next(call, ctx)
        finally:
            ctx.holds.remove(place)
            place.close()
