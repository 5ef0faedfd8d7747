"""prompts/list and prompts/get."""

from __future__ import annotations

from functools import partial
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.answers import Answers, complete, shorten, succeeded
from mcp_bridge.server.calls import Calls
from mcp_bridge.server.context import Request
from mcp_bridge.server.pages import Pages
from mcp_bridge.wire import listings
from mcp_bridge.wire.messages import messages, to_messages
from mcp_bridge.wire.outcomes import INVALID_PARAMS


class Prompts:
    """The registry's prompts as MCP methods."""

    def __init__(self, registry: ToolRegistry, calls: Calls, answers: Answers, *, page: int) -> None:
        self._registry = registry
        self._calls = calls
        self._answers = answers
        self._version = -1
        self._prepared: dict[str, Prepared] = {}
        self._pages = Pages("prompts", page)

    async def list(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """prompts/list."""
        await self._answers.started()
        self._refresh()
        return self._answers.page(self._pages.page, request.protocol_version, params.cursor)

    async def get(self, request: Request, params: types.GetPromptRequestParams) -> dict[str, Any]:
        """prompts/get. Raises MCPError, -32602 for an unknown prompt and for arguments that do not fit."""
        await self._answers.started()
        self._refresh()
        name, version = params.name, request.protocol_version
        entry, prepared = self._registry.prompts.get(name), self._prepared.get(name)
        if entry is None or prepared is None:
            name = shorten(name)
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}", {"name": name})
        call = ToolCall(id=str(request.request_id), name=name, arguments=params.arguments or {}, kind="prompt")
        result = await self._calls.answer(prepared, call, request)
        if isinstance(result, dict):
            return result
        said = messages(succeeded(result, version, name=name).content or (), version)
        described = {"description": entry.description} if entry.description else {}
        return complete({**described, "messages": said}, version)

    def _refresh(self) -> None:
        prompts = self._registry.prompts
        if prompts.version == self._version:
            return
        self._prepared = {entry.name: _prepared(entry) for entry in prompts}
        self._pages.replace({entry.name: partial(listings.prompt, entry) for entry in prompts})
        self._version = prompts.version


def _prepared(entry: PromptEntry) -> Prepared:
    schema = {
        "type": "object",
        "properties": {argument.name: {"type": "string"} for argument in entry.arguments},
        "required": [argument.name for argument in entry.arguments if argument.required],
        "additionalProperties": False,
    }
    return Prepared(entry, input_schema=schema, reads=_reads)


def _reads(answer: Any, _: ToolCall) -> ToolResult:
    return to_messages(answer)
