"""The adapter for tools and toolboxes of simonw/llm. Its tools have a schema, and a function with keyword arguments."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Self
from uuid import uuid4

from anyio import to_thread

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import Json, get_description, get_tool_name, is_a, to_json_schema
from mcp_bridge._integrations.frameworks.content_blocks import from_file, from_url
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox, Toolkit
from mcp_bridge._protocol.wire.values import from_bytes, to_plain_text
from mcp_bridge._runtime.asyncio_runner import run_on_asyncio
from mcp_bridge._runtime.signatures import get_signature

PACKAGE = "llm"
CALL = "llm_tool_call"
"""The name of the parameter for an object about the call."""


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError without an implementation, because only a model API can run it."""
    name = get_tool_name(tool, "llm")
    if not callable(tool.implementation):
        raise SourceError(f"the llm tool '{name}' has no implementation. Give it one")
    schema = to_json_schema(tool.input_schema or {"type": "object"})
    return ToolEntry(name, get_description(tool), _build_handler(tool), schema)


def build_toolbox(toolbox: Any) -> Toolbox:
    """Build a toolbox over a toolbox of llm."""
    return _PreparedToolkit(toolbox)


class _PreparedToolkit(Toolkit):
    """Prepares a toolbox of llm when it is opened."""

    def __init__(self, toolbox: Any) -> None:
        super().__init__(toolbox.tools, build_entry)
        self._toolbox = toolbox

    async def __aenter__(self) -> Self:
        await to_thread.run_sync(self._toolbox.prepare, abandon_on_cancel=True)
        await run_on_asyncio(self._toolbox.prepare_async)
        return self


def _build_handler(tool: Any) -> Any:
    function = tool.implementation

    def run_in_thread(data: Json) -> Any:
        return _convert_returned(function(**_prepare_arguments(tool, data)))

    async def run_on_loop(data: Json) -> Any:
        async def call() -> Any:
            return await function(**_prepare_arguments(tool, data))

        return _convert_returned(await run_on_asyncio(call))

    return run_on_loop if inspect.iscoroutinefunction(function) else run_in_thread


def _prepare_arguments(tool: Any, data: Json) -> Json:
    arguments = dict(data or {})
    try:
        takes_call = CALL in get_signature(tool.implementation).parameters
    except (TypeError, ValueError):
        takes_call = False
    if takes_call:
        tool_call = import_module(f"{PACKAGE}.models").ToolCall
        arguments[CALL] = tool_call(name=tool.name, arguments=dict(arguments), tool_call_id=uuid4().hex)
    return arguments


def _convert_returned(value: Any) -> Any:
    if not is_a(value, PACKAGE, "ToolOutput"):
        return value
    if not value.attachments:
        return value.output
    content: list[Content] = []
    if value.output is not None:
        content.append(Text(to_plain_text(value.output)))
    content += [_convert_attachment(item) for item in value.attachments]
    return ToolResult(success=True, output=value.output, content=content)


def _convert_attachment(item: Any) -> Content:
    if item.content:
        return from_bytes(item.content, item.type)
    if item.path:
        return from_file(item.path, item.type)
    return from_url(str(item.url or ""), item.type)
