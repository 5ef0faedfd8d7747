"""Toolsets of pydantic-ai: of functions, wrapped, combined, dynamic, and those of other servers of MCP."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import anyio

from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks import pydantic_calls
from mcp_bridge.frameworks.pydantic_calls import PACKAGE
from mcp_bridge.frameworks.shapes import is_a
from mcp_bridge.frameworks.toolbox import Toolbox

PATIENCE = 10.0
"""How many seconds a toolset may take to be closed."""


def fits(thing: object) -> bool:
    """Whether this is a toolset of pydantic-ai."""
    return is_a(thing, PACKAGE, "AbstractToolset")


def toolbox_of(thing: object) -> Toolbox:
    """Its tools, in one run without end; dependencies are None."""
    return _Toolset(thing)


class _Toolset:
    """A toolbox over a toolset. `problems` has a line for each tool of it that cannot be called here."""

    def __init__(self, toolset: Any) -> None:
        self._given = toolset
        self._toolset: Any = None
        self.problems: Sequence[str] = ()

    async def __aenter__(self) -> Self:
        context = pydantic_calls.run_context()
        for_run = getattr(self._given, "for_run", None)  # newer ones have a life for each run
        toolset = await for_run(context) if for_run is not None else self._given
        await toolset.__aenter__()
        self._toolset = toolset
        if for_run is not None:
            self._toolset = await toolset.for_run_step(context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.move_on_after(PATIENCE, shield=True):
            await self._toolset.__aexit__(kind, error, trace)

    async def entries(self) -> Sequence[ToolEntry]:
        tools = await self._toolset.get_tools(pydantic_calls.run_context())
        definitions = [tool.tool_def for tool in tools.values()]
        reasons = {one.name: pydantic_calls.why_not(one) for one in definitions}
        self.problems = [reason for reason in reasons.values() if reason is not None]
        return [pydantic_calls.entry_of(one, self._toolset) for one in definitions if reasons[one.name] is None]

    async def changed(self) -> None:
        await anyio.sleep_forever()
