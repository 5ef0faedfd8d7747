"""CallContext: what a running call may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mcp_bridge.contracts.tool import ToolCall, ToolEntry, ToolResult


class Caller(Protocol):
    """Who carries out calls that a call makes: the registry."""

    def list(self) -> Sequence[ToolEntry]:
        """All published tools."""
        ...

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run one call through the pipeline."""
        ...


class CallContext:
    """The running call, as its tool and its middleware see it.

    A tool receives it through a parameter annotated `CallContext`. This class alone, without a client
    behind it, is what `ToolRegistry.invoke` hands out: progress goes nowhere, everything else works.

    `deadline` is on the event loop's clock, in seconds, or None. `protocol_version` is empty in process.
    `pipeline` is the policy that calls made by this call are under too.
    """

    __slots__ = ("caller", "deadline", "meta", "pipeline", "principal", "protocol_version", "request_id")

    def __init__(
        self,
        *,
        caller: Caller | None = None,
        protocol_version: str = "",
        principal: str | None = None,
        request_id: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.caller = caller
        self.protocol_version = protocol_version
        self.principal = principal
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta if meta is not None else {}
        self.deadline: float | None = None
        self.pipeline: Any = None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is. `progress` must grow; clients that did not ask hear nothing."""

    def tools(self) -> Sequence[ToolEntry]:
        """The published tools, by name; empty when nothing serves this call."""
        return self.caller.list() if self.caller is not None else ()

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool through the same pipeline, under the same policy; None means no arguments.

        Raises ToolNotFound when there is none of that name, RuntimeError when nothing serves this call.
        """
        if self.caller is None:
            raise RuntimeError("this call runs outside a registry, so it cannot call other tools")
        return await self.caller.dispatch(
            ToolCall(id=self.request_id, name=name, arguments={} if arguments is None else arguments), self
        )
