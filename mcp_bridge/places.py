"""Places: how many calls run at once, and how many may wait for that."""

from __future__ import annotations

import math

import anyio

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import Overloaded
from mcp_bridge.contracts.extension import CallNext
from mcp_bridge.contracts.tool import ToolCall, ToolResult


class Places:
    """At most `size` calls at once; `queue` more wait in turn, others are refused. `of` says whose places they are."""

    def __init__(self, size: int, *, queue: int, of: str = "") -> None:
        self._places = anyio.CapacityLimiter(size)
        self._queue = queue
        self._of = of

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """Go on once there is a place. While a person is asked it is given back. Raises Overloaded."""
        place = Place(self)
        await self.take(place)
        place.held = True
        ctx.holds.append(place)
        try:
            return await call_next(call, ctx)
        finally:
            ctx.holds.remove(place)
            place.close()

    async def take(self, place: Place) -> None:
        """Take a place, in turn. Raises Overloaded when too many wait."""
        try:
            self._places.acquire_on_behalf_of_nowait(place)
        except anyio.WouldBlock:
            if self._places.statistics().tasks_waiting >= self._queue:
                raise Overloaded(f"Too many calls{self._of} run and wait. Try again in a moment.") from None
            await self._places.acquire_on_behalf_of(place)

    def free(self, place: Place) -> None:
        """Give a place back."""
        self._places.release_on_behalf_of(place)


class Place:
    """One call's place."""

    __slots__ = ("_closed", "_places", "held")
    deadline = math.inf

    def __init__(self, places: Places) -> None:
        self._places = places
        self._closed = self.held = False

    def pause(self) -> None:
        """Give it back, if it is held."""
        if self.held:
            self.held = False
            self._places.free(self)

    async def resume(self) -> None:
        """Take it again, in turn. Raises Overloaded."""
        await self._places.take(self)
        self.held = True
        if self._closed:
            self.pause()

    def close(self) -> None:
        """Give it back for good."""
        self._closed = True
        self.pause()
