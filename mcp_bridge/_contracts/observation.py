"""What an observer of a pipeline sees of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from mcp_bridge._contracts.tool import ToolResult


class ClientInfo(NamedTuple):
    """What a client has declared about itself.

    Attributes:
        protocol: The MCP version that it uses.
        transport: How it is connected: `http`, `sse`, `stdio`, `socket` or `memory`; empty if that is unknown.
        session: The key of its session; empty in the stateless era.
    """

    name: str = ""
    version: str = ""
    protocol: str = ""
    transport: str = ""
    session: str = ""


class LayerTime:
    """How long a call has been in one layer of the pipeline and in those inside it, in seconds."""

    __slots__ = ("is_entered", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds: float | None = None
        self.is_entered = False


class ObservedCall(Protocol):
    """One call, as its observer sees it.

    Attributes:
        layers: The pipeline adds the times of its layers to this list, unless it is None.
    """

    layers: list[LayerTime] | None

    @property
    def name(self) -> str:
        """What is called."""

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The call has reported progress."""

    def end(self, result: ToolResult | None) -> None:
        """The call has ended with this result, or was cancelled (None)."""
