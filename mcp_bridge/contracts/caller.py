"""Protocols of what a call depends on: the caller, which runs its nested calls, and the limits that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mcp_bridge.contracts.tool import ToolCall, ToolEntry, ToolResult

if TYPE_CHECKING:
    from mcp_bridge.contracts.context import CallContext


class Hold(Protocol):
    """A deadline, or a slot of a limiter, that a call holds and releases while it waits for the user."""

    @property
    def deadline(self) -> float:
        """When the call must end, in seconds of the event loop's clock; infinite without a deadline."""

    def pause(self) -> None:
        """Release it until `resume`."""

    def resume(self) -> None:
        """Take it back without waiting, because the call may be in cancellation."""


class Caller(Protocol):
    """Runs the calls that a call makes. The registry is one.

    Attributes:
        lifespan: The value of the lifespan of the server; None if there is none.
    """

    lifespan: Any

    def list(self) -> Sequence[ToolEntry]:
        """Return all published tools."""

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run one call through the pipeline."""

    async def dispatch_entry(self, entry: ToolEntry, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run a call to an unpublished tool through the pipeline."""

    async def dispatch_resource(self, uri: str, call_id: str, ctx: CallContext) -> ToolResult:
        """Read a resource through the pipeline. Raises ResourceNotFound."""

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients that a resource has changed."""
