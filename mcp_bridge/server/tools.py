"""tools/list and tools/call."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.headers import check_headers
from mcp_bridge.server.calls import CallRunner
from mcp_bridge.server.client_text import RequestError, describe_problems, echo, find_problems
from mcp_bridge.server.pages import Pages
from mcp_bridge.server.requests import Request
from mcp_bridge.server.responses import Responses, raise_missing_capability, truncate_text
from mcp_bridge.server.truncation import ResultTruncator
from mcp_bridge.wire.outcomes import to_error_result
from mcp_bridge.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge.wire.results import to_mcp
from mcp_bridge.wire.tools import WireTool, to_wire

logger = logging.getLogger("mcp_bridge.server")


class ToolIndex:
    """The registry's tools as clients see them, by client name, rebuilt after each change.

    `page` is the most tools per page, `dialect` how they are presented to the client.
    """

    def __init__(self, registry: ToolRegistry, *, page: int, dialect: SchemaDialect = NO_DIALECT) -> None:
        self._registry = registry
        self._dialect = dialect
        self._version = -1
        self._tools: dict[str, WireTool] = {}
        self._pages = Pages("tools", page)

    def get(self, name: str) -> WireTool | None:
        """Return the tool that clients know by this name."""
        self._refresh()
        return self._tools.get(name)

    def get_pages(self) -> Pages:
        """Return the pages of tools/list."""
        self._refresh()
        return self._pages

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
            elif problems := check_headers(definition.input_schema):  # clients would drop it, or leak a secret
                logger.error("tool %r is not served: input schema %s", entry.name, "; ".join(problems))
            else:
                tool = self._apply_dialect(to_wire(definition))
                tools.setdefault(tool.name, tool)
        self._tools = tools
        self._pages.replace({name: tool.render_listing for name, tool in tools.items()})
        self._version = version

    def _apply_dialect(self, tool: WireTool) -> WireTool:
        if not self._dialect.is_active:
            return tool
        from mcp_bridge.dialects.rewriting import rewrite_tool  # a server without a dialect starts faster without it

        return rewrite_tool(tool, self._dialect, may_have_injections=self._registry.pipeline.injects_texts)


class ToolMethods:
    """The MCP methods of tools."""

    def __init__(
        self,
        registry: ToolRegistry,
        runner: CallRunner,
        responses: Responses,
        truncator: ResultTruncator,
        *,
        page: int,
        dialect: SchemaDialect,
    ) -> None:
        self._registry = registry
        self._runner = runner
        self._responses = responses
        self._truncator = truncator
        self.index = ToolIndex(registry, page=page, dialect=dialect)

    def list_tools(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve tools/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, request, params.get("cursor"))

    async def call(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve tools/call. Raises RpcError for an unknown tool; errors that a model can fix are in the result."""
        if self._responses.is_waiting:
            await self._responses.wait_for_sources()
        version, name = request.version, params["name"]
        tool = self.index.get(name)
        prepared = self._registry.get_prepared(tool.definition.name) if tool is not None else None
        if tool is None or prepared is None:
            name = truncate_text(name)
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name}", {"name": name})
        redactor, problems = self._responses.redactor, None
        try:
            arguments = tool.read_arguments(params.get("arguments"))
            call = ToolCall(id=str(request.id), name=tool.definition.name, arguments=arguments, root=tool.root)
            result = await self._runner.run_call(prepared, call, request)
        except InvalidArguments as error:
            result, problems = to_error_result(error), describe_problems(error.details, prepared, redactor)
        if isinstance(result, dict):
            return self._responses.stamp(result)
        if result.is_error:
            raise_missing_capability(result, version)
            problems = problems or find_problems(result, prepared, call, redactor)
        size = result.encoded.size if result.encoded is not None else None
        rendered = to_mcp(result, tool, version)
        if not self._truncator.is_small(rendered, size):
            rendered = await self._truncator.truncate(
                rendered,
                version,
                declared=tool.output_schema is not None,
                output_size=size,
                principal=request.incoming.principal,
            )
        if problems is not None and rendered["content"][0]["text"] == result.error_text:  # else it is truncated
            rendered["content"][0] = {"type": "text", "text": echo(problems)}
        return self._responses.stamp(rendered) if has_feature(version, STATELESS) else rendered

    def _render_page(self, request: Request, cursor: str | None) -> Any:
        return self._responses.render_page(self.index.get_pages(), request, cursor)
