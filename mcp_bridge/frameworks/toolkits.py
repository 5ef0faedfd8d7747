"""Sets of tools without a life of their own: of LangChain, LlamaIndex and smolagents, and the toolboxes of llm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import anyio
from anyio import to_thread

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks import langchain, llamaindex, llm, smolagents
from mcp_bridge.frameworks.shapes import is_a
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.runtime.asyncio_runner import on_asyncio

_SETS: tuple[tuple[str, str, Callable[[Any], Iterable[Any]], Callable[[object], ToolEntry]], ...] = (
    (langchain.PACKAGE, "BaseToolkit", lambda kit: kit.get_tools(), langchain.entry_of),
    (llamaindex.PACKAGE, "BaseToolSpec", lambda spec: spec.to_tool_list(), llamaindex.entry_of),
    (smolagents.PACKAGE, "ToolCollection", lambda collection: collection.tools, smolagents.entry_of),
    (llm.PACKAGE, "Toolbox", lambda box: box.tools(), llm.entry_of),
)
"""A package, its class, how that lists its tools, and what makes one an entry."""


def fits(thing: object) -> bool:
    """Whether this is a set of tools of one of these frameworks."""
    return any(is_a(thing, package, name) for package, name, _, _ in _SETS)


def toolbox_of(thing: object) -> Toolbox:
    """Its tools; one of llm is prepared first. A tool that cannot be published is among its `problems`."""
    tools, entry_of = next((tools, made) for package, name, tools, made in _SETS if is_a(thing, package, name))
    return _Kit(thing, tools, entry_of)


class _Kit:
    """A toolbox over such a set."""

    def __init__(
        self, thing: Any, tools: Callable[[Any], Iterable[Any]], entry_of: Callable[[object], ToolEntry]
    ) -> None:
        self._thing = thing
        self._tools = tools
        self._entry_of = entry_of
        self.problems: list[str] = []

    async def __aenter__(self) -> Self:
        if is_a(self._thing, llm.PACKAGE, "Toolbox"):
            await to_thread.run_sync(self._thing.prepare, abandon_on_cancel=True)
            await on_asyncio(self._thing.prepare_async)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def entries(self) -> Sequence[ToolEntry]:
        return await to_thread.run_sync(self._listed, abandon_on_cancel=True)

    async def changed(self) -> None:
        await anyio.sleep_forever()

    def _listed(self) -> list[ToolEntry]:
        made, self.problems = [], []
        for tool in self._tools(self._thing):
            try:
                made.append(self._entry_of(tool))
            except SourceError as error:
                self.problems.append(str(error))
        return made
