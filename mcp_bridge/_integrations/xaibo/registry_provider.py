"""Gives the tools of a registry to a Xaibo agent, as a provider for the agent's configuration."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from mcp_bridge._contracts.content import Content
from mcp_bridge._contracts.errors import CallError, ToolNotFound
from mcp_bridge._contracts.running_call import Caller, RegistryOwner, RunningCall, get_caller
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._integrations.xaibo.results import to_provider_fields
from mcp_bridge._integrations.xaibo.source.running_call import RUNNING
from mcp_bridge._integrations.xaibo.tool_models import build_xaibo_tool, get_models
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._protocol.wire.tools import WireTool, to_wire


class RegistryToolProvider:
    """The ToolProvider of a Xaibo agent with the tools of a registry or of a running bridge.

    Every call goes through the pipeline of the registry, with its validation, limits, hooks and approvals. Parts of a
    schema that a ToolParameter cannot express are in its description, as JSON Schema.

    >>> import asyncio
    >>> from mcp_bridge import ToolRegistry
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> registry = ToolRegistry()
    >>> _ = registry.tool(double)
    >>> provider = RegistryToolProvider(registry)
    >>> asyncio.run(provider.execute_tool("double", {"number": 21})).result
    42
    """

    def __init__(self, tools: Caller | RegistryOwner) -> None:
        self._caller = get_caller(tools)

    async def list_tools(self) -> list[Any]:
        """Return the registered tools, in the classes of xaibo if xaibo is imported."""
        return [build_xaibo_tool(_to_wire(entry)) for entry in self._caller.list()]

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
        """Run a tool. An error is a result, as Xaibo's protocol requires it."""
        try:
            wire = self._find_tool(tool_name)
            call_id = uuid4().hex
            # In the call of an agent that the bridge serves, the client of this call can be asked questions.
            running = RUNNING.get()
            ctx = running.ctx if running is not None else RunningCall(request_id=call_id)
            arguments = wire.read_arguments(parameters)
            call = ToolCall(id=call_id, name=wire.definition.name, arguments=arguments, root=wire.root)
            result = await self._caller.dispatch(call, ctx)
        except CallError as error:
            result = to_error_result(error)
        fields = to_provider_fields(result)
        # Xaibo's orchestrators convert a result to text, and would show the Python objects.
        if isinstance(fields["result"], list) and any(isinstance(item, Content) for item in fields["result"]):
            fields["result"] = "\n".join(_format_content(item) for item in fields["result"])
        return get_models().ToolResult(**fields)

    def _find_tool(self, name: str) -> WireTool:
        for entry in self._caller.list():
            if to_client_name(entry.name) == name:
                return _to_wire(entry)
        raise ToolNotFound(f"Unknown tool: {name}.")


def _to_wire(entry: ToolEntry) -> WireTool:
    return to_wire(entry.to_tool_definition())


def _format_content(item: Any) -> str:
    if not isinstance(item, Content):
        return str(item)
    block = render_block(item, IN_PROCESS)
    if block["type"] == "text":
        return str(block["text"])
    return f"[{block['type']} {block.get('mimeType', '')}]"
