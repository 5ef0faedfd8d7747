"""Toolbox: an object of a framework that has many tools and a life, such as a server or a toolset."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from mcp_bridge.contracts.tool import ToolEntry


class Toolbox(Protocol):
    """Entered once, in one task; its tools can be listed and called until it is left.

    One that can list some of its tools but not others has `problems` as well, a line for each of the others.
    """

    async def __aenter__(self) -> Self:
        """Open what it holds: connections, processes."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it again."""
        ...

    async def entries(self) -> Sequence[ToolEntry]:
        """Its tools as they are now. Raises SourceError for what cannot be listed."""
        ...

    async def changed(self) -> None:
        """Wait until there may be other tools; for ever where that never happens."""
        ...
