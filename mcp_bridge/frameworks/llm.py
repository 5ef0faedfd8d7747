"""Tools of simonw/llm: a schema, and an implementation that is called with keywords."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any
from uuid import uuid4

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.blocks import of_data, of_file, of_url
from mcp_bridge.frameworks.shapes import Json, described, is_a, named, of_model
from mcp_bridge.runtime.asyncio_runner import on_asyncio
from mcp_bridge.wire.values import as_text

PACKAGE = "llm"
CALL = "llm_tool_call"
"""The parameter that llm fills in with the call itself."""


def fits(thing: object) -> bool:
    """Whether this is a tool of llm."""
    return is_a(thing, PACKAGE, "Tool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one without an implementation, which only a provider can run."""
    tool: Any = thing
    name = named(tool, "llm")
    if not callable(tool.implementation):
        raise SourceError(f"the llm tool '{name}' has no implementation. Give it one")
    return ToolEntry(name, described(tool), _handler(tool), of_model(tool.input_schema or {"type": "object"}))


def _handler(tool: Any) -> Any:
    function = tool.implementation

    def in_thread(data: Json) -> Any:
        return _read(function(**_arguments(tool, data)))

    async def on_loop(data: Json) -> Any:
        async def call() -> Any:
            return await function(**_arguments(tool, data))

        return _read(await on_asyncio(call))

    return on_loop if inspect.iscoroutinefunction(function) else in_thread


def _arguments(tool: Any, data: Json) -> Json:
    given = dict(data or {})
    try:
        asks = CALL in inspect.signature(tool.implementation).parameters
    except (TypeError, ValueError):
        asks = False
    if asks:
        made = import_module(f"{PACKAGE}.models").ToolCall
        given[CALL] = made(name=tool.name, arguments=dict(given), tool_call_id=uuid4().hex)
    return given


def _read(answer: Any) -> Any:
    """An answer with attachments as its text and theirs; anything else as it is."""
    if not is_a(answer, PACKAGE, "ToolOutput"):
        return answer
    if not answer.attachments:
        return answer.output
    said = [] if answer.output is None else [Text(as_text(answer.output))]
    content: list[Content] = [*said, *(_attached(item) for item in answer.attachments)]
    return ToolResult(success=True, output=answer.output, content=content)


def _attached(item: Any) -> Content:
    """An attachment; one that is a link is not followed."""
    if item.content:
        return of_data(item.content, item.type)
    if item.path:
        return of_file(item.path, item.type)
    return of_url(str(item.url or ""), item.type)
