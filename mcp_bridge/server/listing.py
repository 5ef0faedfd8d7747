"""What clients see of the registry: tools by client name, and the pages of tools/list, made once per change."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge.registry import ToolRegistry
from mcp_bridge.server.paging import decode, encode
from mcp_bridge.wire.tools import WireTool, to_wire


class Listing:
    """The registry on the wire. `page` is the most tools in one answer."""

    def __init__(self, registry: ToolRegistry, *, page: int) -> None:
        self._registry = registry
        self._page = page
        self._version = -1
        self._tools: dict[str, WireTool] = {}
        self._names: Sequence[str] = ()
        self._pages: dict[tuple[str, str | None], dict[str, Any]] = {}

    def get(self, name: str) -> WireTool | None:
        """The tool that clients know by this name."""
        self._refresh()
        return self._tools.get(name)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The input schema as listed, for the SDK's check of `Mcp-Param-*` headers."""
        tool = self.get(name)
        return tool.input_schema if tool is not None else None

    def page(self, version: str, cursor: str | None) -> Mapping[str, Any]:
        """One page of tools/list: `tools`, and `nextCursor` when there are more. Raises BadCursor."""
        self._refresh()
        made = self._pages.get((version, cursor))
        if made is None:
            made = self._make(version, cursor)
            if cursor is None or len(self._pages) < len(self._names):  # a client's inventions are not kept
                self._pages[version, cursor] = made
        return made

    def _make(self, version: str, cursor: str | None) -> dict[str, Any]:
        start = 0 if cursor is None else bisect_right(self._names, decode(cursor))
        names = self._names[start : start + self._page]
        made: dict[str, Any] = {"tools": [self._tools[name].listing(version) for name in names]}
        if start + self._page < len(self._names):
            made["nextCursor"] = encode(names[-1])
        return made

    def _refresh(self) -> None:
        version = self._registry.version
        if version == self._version:
            return
        known = {tool.definition.name: tool for tool in self._tools.values()}
        tools: dict[str, WireTool] = {}
        for entry in self._registry.list():
            definition = entry.to_tool_definition()
            old = known.get(entry.name)
            tool = old if old is not None and old.definition == definition else to_wire(definition)
            tools.setdefault(tool.name, tool)
        self._tools, self._names, self._pages = tools, sorted(tools), {}
        self._version = version
