"""Makes the tool calls of a running agent go through the pipeline, as nested calls of the call of the agent.

Validation, hooks, approvals, limits and audit therefore apply to the tools of an agent, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.xaibo.results import to_provider_fields
from mcp_bridge._integrations.xaibo.schemas import get_field
from mcp_bridge._integrations.xaibo.source import agent_config
from mcp_bridge._integrations.xaibo.source.provider_tools import ProviderTools
from mcp_bridge._integrations.xaibo.source.providers import unwrap_provider
from mcp_bridge._integrations.xaibo.source.running_call import RUNNING
from mcp_bridge._integrations.xaibo.tool_models import adapt_tool, build_xaibo_tool
from mcp_bridge._protocol.wire.tools import to_wire
from mcp_bridge._runtime.third_party import resolve_awaitable

logger = logging.getLogger("mcp_bridge.sources.xaibo")

SelectTool = Callable[[ToolEntry], ToolEntry | None]
"""Returns a tool of a provider as it is published, or None if the settings leave it out."""

_LISTING: ContextVar[bool] = ContextVar("listing", default=False)
"""Whether a provider is listing its tools. If it asks other providers meanwhile, it collects their tools."""
_NOT_RUNNING = "Tool '{}' can only be called while a call of the agent runs, in a task or thread of that call."


class AgentProvider:
    """Replaces a provider for the other modules of an agent. Only listings and calls differ from `provider`."""

    def __init__(self, label: str, provider: Any, select: SelectTool) -> None:
        self.provider = provider
        self._select = select
        self._selected: dict[str, tuple[ToolEntry, ToolEntry | None]] = {}
        ((_, inner_provider),) = unwrap_provider(provider, label)
        self._tools = ProviderTools(label, inner_provider, on_missing=lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.provider, name)

    async def list_tools(self) -> list[Any]:
        """Return the selected tools with the overrides of the settings.

        If another provider collects the tools of this one, it gets them unchanged, because the overrides apply to
        its own list.
        """
        is_collected = _LISTING.get()
        token = _LISTING.set(True)
        try:
            tools = await self._tools.list_tools()
        finally:
            _LISTING.reset(token)
        if is_collected:
            return tools
        # If two tools have the same name, the first one is published.
        tools_by_name = {get_field(tool, "name"): tool for tool in reversed(tools)}
        selected_tools = []
        for entry in self._tools.entries:
            published_entry = self._select_entry(entry)
            if published_entry is None:
                continue
            if published_entry.input_schema is entry.input_schema and published_entry.description == entry.description:
                selected_tools.append(adapt_tool(tools_by_name[entry.name]))
            else:
                # The agent knows the tool by its name in the provider.
                definition = replace(published_entry, name=entry.name).to_tool_definition()
                selected_tools.append(build_xaibo_tool(to_wire(definition)))
        return selected_tools

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        """Run a tool through the pipeline. An error is a result."""
        running = RUNNING.get()
        # Without a running call, policies could not apply.
        if running is None:
            logger.error("agent tool %r was called outside of a call", tool_name)
            return _make_failure(_NOT_RUNNING.format(tool_name))
        # If a provider passes its running call on to this one, the call has gone through the pipeline already.
        if running.name == tool_name and running.arguments == parameters:
            return await resolve_awaitable(self.provider.execute_tool(tool_name, parameters))
        entry = await self._find_entry(tool_name)
        if entry is None:
            return _make_failure(f"Tool '{tool_name}' was not found by its provider.")
        published_entry = self._select_entry(entry)
        if published_entry is None:
            return _make_failure(f"Tool '{tool_name}' cannot be called, because the settings leave it out.")
        result = await running.ctx.invoke_entry(published_entry, parameters)
        return agent_config.make_tool_result(**to_provider_fields(result))

    def _select_entry(self, entry: ToolEntry) -> ToolEntry | None:
        """Return the tool as it is published: the same object for each call, because results are cached by entry."""
        last_entry, published_entry = self._selected.get(entry.name, (None, None))
        if last_entry is not entry:
            published_entry = self._select(entry)
            self._selected[entry.name] = entry, published_entry
        return published_entry

    async def _find_entry(self, name: str) -> ToolEntry | None:
        entry = self._get_entry(name)
        if entry is None:
            await self.list_tools()
            entry = self._get_entry(name)
        return entry

    def _get_entry(self, name: str) -> ToolEntry | None:
        for entry in self._tools.entries:
            if entry.name == name:
                return entry
        return None


def _make_failure(error: str) -> Any:
    return agent_config.make_tool_result(success=False, result=None, error=error)
