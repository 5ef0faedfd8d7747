"""Defines the record of an observer about a call, and the description of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from mcp_bridge._contracts.tool import ToolResult


class ClientInfo(NamedTuple):
    """How a client describes itself, and how it is connected.

    Attributes:
        name: The reported name.
        version: The reported version.
        protocol: The MCP version of its requests.
        transport: Its transport: `http`, `sse`, `stdio`, `socket` or `memory`; empty if that is unknown.
        session: The key of its session; empty in the stateless era.
    """

    name: str = ""
    version: str = ""
    protocol: str = ""
    transport: str = ""
    session: str = ""


class LayerTime:
    """The seconds of a call in one layer of the pipeline, and in the layers inside it.

    `seconds` is None until the layer has ended. `is_entered` is whether it has begun.
    """

    __slots__ = ("is_entered", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds: float | None = None
        self.is_entered = False


class ObservedCall(Protocol):
    """One call, for its observer.

    Attributes:
        layers: The pipeline adds the times of its layers to this list, unless it is None.
    """

    layers: list[LayerTime] | None

    @property
    def name(self) -> str:
        """The name of the tool or prompt, or the URI of the resource."""

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Record the progress of the call."""

    def report_log(self, level: str, data: Any, logger: str | None) -> None:
        """Record a log message of the call, whether or not the client gets it."""

    def report_asking(self, *, is_asking: bool) -> None:
        """Record that the call begins to wait for an answer of a user, or has stopped waiting."""

    def report_exception(self, error: BaseException) -> None:
        """Record an unexpected exception of the call. Clients do not see it."""

    def end(self, result: ToolResult | None) -> None:
        """Record the end of the call with this result, or its cancellation (None)."""
