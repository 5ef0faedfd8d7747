"""PromptMethods: prompts/list and prompts/get."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire import listings
from mcp_bridge._server.calls.runner import CallRunner
from mcp_bridge._server.pages import Pages
from mcp_bridge._server.redaction import RequestError, find_problems
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses


class PromptMethods:
    """The MCP methods of prompts. `page` is the maximum number of prompts of a page."""

    def __init__(self, registry: ToolRegistry, runner: CallRunner, responses: Responses, *, page: int) -> None:
        self._registry = registry
        self._runner = runner
        self._responses = responses
        self._version = -1
        self._prepared: dict[str, PreparedEntry] = {}
        self._pages = Pages("prompts", page)

    def list_prompts(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve prompts/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, request, params.get("cursor"))

    def render_list(self, version: str, cursor: str | None) -> dict[str, Any]:
        """Return a page of the prompts. Raises BadCursor."""
        self._refresh()
        return self._pages.render(version, cursor)

    def find_prompt(self, name: str) -> PreparedEntry | None:
        """Return the prompt of this name as an entry ready to be called, or None."""
        self._refresh()
        return self._prepared.get(name)

    async def get(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve prompts/get. Raises RpcError, with code -32602 for an unknown prompt and for invalid arguments."""
        name = params["name"]
        version = request.version
        if self._registry.prompts.get(name) is None:
            await self._responses.wait_for_sources()
        self._refresh()
        entry = self._registry.prompts.get(name)
        prepared = self._prepared.get(name)
        if entry is None or prepared is None:
            name = truncate_text(name)
            raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name}", {"name": name})
        call = ToolCall(id=str(request.id), name=name, arguments=params.get("arguments") or {}, kind="prompt")
        result = await self._runner.run_call(prepared, call, request)
        if isinstance(result, dict):
            # The prompt asks the client for input first.
            return self._responses.add_server_info(result)
        problems = find_problems(result, prepared, call, self._responses.redactor)
        if problems is not None:
            raise RequestError(INVALID_PARAMS, problems, {"name": name, "code": result.code})
        from mcp_bridge._protocol.wire.messages import render_messages
        from mcp_bridge._protocol.wire.tools import render_meta

        checked_result = self._responses.check_success(result, version, key="name", value=name)
        response: dict[str, Any] = {}
        if entry.description:
            response["description"] = entry.description
        response["messages"] = render_messages(checked_result.content or (), version)
        response |= render_meta(checked_result, version)
        return self._responses.complete_result(response, version)

    def _render_page(self, request: Request, cursor: str | None) -> Any:
        self._refresh()
        return self._responses.render_page(self._pages, request, cursor)

    def _refresh(self) -> None:
        prompts = self._registry.prompts
        if prompts.version == self._version:
            return
        self._prepared = {entry.name: _prepare_prompt(entry) for entry in prompts}
        self._pages.replace({entry.name: partial(listings.render_prompt, entry) for entry in prompts})
        self._version = prompts.version


def _prepare_prompt(entry: PromptEntry) -> PreparedEntry:
    schema = {
        "type": "object",
        "properties": {argument.name: {"type": "string"} for argument in entry.arguments},
        "required": [argument.name for argument in entry.arguments if argument.required],
        "additionalProperties": False,
    }
    return PreparedEntry(entry, input_schema=schema, read_result=_read_result)


def _read_result(value: Any, _: ToolCall) -> ToolResult:
    # Many servers get no request for a prompt, and start faster without this module.
    from mcp_bridge._protocol.wire.messages import to_messages

    return to_messages(value)
