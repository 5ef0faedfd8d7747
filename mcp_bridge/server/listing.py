"""What clients see of the tools: by client name, and the pages of tools/list, made once per change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp_bridge.dialects.dialect import NONE, Dialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.headers import header_complaints
from mcp_bridge.server.pages import Pages
from mcp_bridge.wire.tools import WireTool, to_wire

logger = logging.getLogger("mcp_bridge.server")


class Listing:
    """The registry's tools on the wire. `page` is the most tools in one answer, `dialect` how they are told."""

    def __init__(self, registry: ToolRegistry, *, page: int, dialect: Dialect = NONE) -> None:
        self._registry = registry
        self._dialect = dialect
        self._version = -1
        self._tools: dict[str, WireTool] = {}
        self._pages = Pages("tools", page)

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
        return self._pages.page(version, cursor)

    def _refresh(self) -> None:
        version = self._registry.version
        if version == self._version:
            return
        known = {tool.definition.name: tool for tool in self._tools.values()}
        tools: dict[str, WireTool] = {}
        for entry in self._registry.list():
            definition = entry.to_tool_definition()
            old = known.get(entry.name)
            if old is not None and old.definition == definition:
                tools.setdefault(old.name, old)
            elif wrong := header_complaints(definition.input_schema):  # clients would drop it, or tell a secret
                logger.error("tool %r is not served: input schema %s", entry.name, "; ".join(wrong))
            else:
                tool = self._told(to_wire(definition))
                tools.setdefault(tool.name, tool)
        self._tools = tools
        self._pages.replace({name: tool.listing for name, tool in tools.items()})
        self._version = version

    def _told(self, tool: WireTool) -> WireTool:
        if not self._dialect.changes:
            return tool
        from mcp_bridge.dialects.rewriting import applied  # no start pays for a dialect that it has not

        return applied(tool, self._dialect)
