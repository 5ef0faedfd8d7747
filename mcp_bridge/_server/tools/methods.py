"""tools/list and tools/call."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Set
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge._contracts.listing import CALL_TOOL, LIST_ALL, SEARCH_TOOLS, ToolListing
from mcp_bridge._contracts.tool import ToolCall, ToolDefinition, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.headers import check_headers
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge._protocol.wire.results import to_mcp
from mcp_bridge._protocol.wire.tools import WireTool, to_wire
from mcp_bridge._server.client_text import RequestError, describe_problems, echo, find_problems
from mcp_bridge._server.pages import Pages
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses, raise_missing_capability
from mcp_bridge._server.truncation import ResultTruncator

if TYPE_CHECKING:
    from mcp_bridge._server.tools.built_in import BuiltInTool, FindTarget

RunCall = Callable[[PreparedEntry, ToolCall, Request], Awaitable[ToolResult | dict[str, Any]]]
"""Runs a call. Returns its result, or an `input_required` result for the client."""

logger = logging.getLogger("mcp_bridge.server")
_FOR_SEARCH = (SEARCH_TOOLS, CALL_TOOL)


class ListedBuiltIn(NamedTuple):
    """A tool of the server itself, ready to be listed and called."""

    tool: WireTool
    prepared: PreparedEntry
    find_target: FindTarget | None


class ToolIndex:
    """The registry's tools as clients see them, by client name, rebuilt after each change.

    `page` is the most tools per page, `dialect` how they are presented to the client, `listing` which ones are listed.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        page: int,
        dialect: SchemaDialect = NO_DIALECT,
        listing: ToolListing = LIST_ALL,
    ) -> None:
        self._registry = registry
        self._dialect = dialect
        self._listing = listing
        self._version = -1
        self._tools: dict[str, WireTool] = {}
        self._unlisted: Set[str] = frozenset()
        self._built_in: dict[str, ListedBuiltIn] = {}
        self._pages = Pages("tools", page)

    def get(self, name: str) -> WireTool | None:
        """Return the tool that clients know by this name."""
        self._refresh()
        return self._tools.get(name)

    def find_published(self, name: str) -> tuple[PreparedEntry, WireTool] | None:
        """Return the tool that clients know by this name, ready to be called, and how they see it."""
        tool = self.get(name)
        prepared = self._registry.get_prepared(tool.definition.name) if tool is not None else None
        return (prepared, tool) if tool is not None and prepared is not None else None

    def find_called(self, request: Request, params: Mapping[str, Any]) -> PreparedEntry | None:
        """Return what a request of tools/call runs, also if it does so through a tool of the server itself."""
        if found := self.find_published(params["name"]):
            return found[0]
        built_in = self.get_built_in(params["name"])
        if built_in is None or built_in.find_target is None:
            return None
        target = built_in.find_target(built_in.tool.read_arguments(params.get("arguments")), request)
        return target.prepared if target is not None else None

    def get_built_in(self, name: str) -> ListedBuiltIn | None:
        """Return the tool of the server itself that has this name."""
        return self._built_in.get(name)

    def list_tools(self) -> list[WireTool]:
        """Return the tools of the registry that may be listed, sorted by name."""
        self._refresh()
        return [tool for name, tool in self._tools.items() if name not in self._unlisted]

    def add_built_in(self, tools: Iterable[BuiltInTool]) -> None:
        """Add tools of the server itself, which are not in the registry."""
        for entry, find_target in tools:
            tool = self._present(entry.to_tool_definition())
            self._built_in[entry.name] = ListedBuiltIn(tool, PreparedEntry(entry), find_target)

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
        unlisted: set[str] = set()
        for entry in self._registry.list_with_unlisted():
            definition = entry.to_tool_definition()
            old = known.get(entry.name)
            if entry.name in self._built_in:
                logger.error("tool %r is not served: the settings add a tool of this name. Rename one", entry.name)
            elif old is not None and old.definition == definition:
                tools.setdefault(old.name, old)
            elif problems := check_headers(definition.input_schema):  # clients would drop it, or leak a secret
                logger.error("tool %r is not served: input schema %s", entry.name, "; ".join(problems))
            else:
                tool = self._present(definition)
                tools.setdefault(tool.name, tool)
            if not entry.is_listed:
                unlisted.add(to_client_name(entry.name))
        self._tools, self._unlisted = tools, unlisted
        self._pages.replace({tool.name: tool.render_listing for tool in self._select_listed()})
        self._version = version

    def _select_listed(self) -> list[WireTool]:
        """Return what tools/list has. The tools for a search are in it only if there are tools to find."""
        tools = [tool for name, tool in self._tools.items() if name not in self._unlisted]
        names = set(self._listing.select_listed([tool.definition.name for tool in tools]))
        is_searched = len(names) < len(tools)
        built_in = [each.tool for name, each in self._built_in.items() if is_searched or name not in _FOR_SEARCH]
        return [*(tool for tool in tools if tool.definition.name in names), *built_in]

    def _present(self, definition: ToolDefinition) -> WireTool:
        tool = to_wire(definition)
        if not self._dialect.is_active:
            return tool
        from mcp_bridge._protocol.dialects.rewriting import (
            rewrite_tool,  # a server without a dialect starts faster without it
        )

        return rewrite_tool(tool, self._dialect, may_have_injections=self._registry.pipeline.injects_texts)


class ToolMethods:
    """The MCP methods of tools."""

    def __init__(
        self,
        registry: ToolRegistry,
        run_call: RunCall,
        responses: Responses,
        truncator: ResultTruncator,
        *,
        page: int,
        dialect: SchemaDialect,
        listing: ToolListing = LIST_ALL,
    ) -> None:
        self._registry = registry
        self._run_call = run_call
        self._responses = responses
        self._truncator = truncator
        self.index = ToolIndex(registry, page=page, dialect=dialect, listing=listing)

    def with_runner(self, run_call: RunCall) -> ToolMethods:
        """Return the same methods with another way to run calls."""
        other = copy(self)
        other._run_call = run_call
        return other

    def list_tools(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve tools/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, request, params.get("cursor"))

    def call(self, request: Request, params: Mapping[str, Any]) -> Coroutine[Any, Any, dict[str, Any]]:
        """Serve tools/call. Raises RpcError for an unknown tool; errors that a model can fix are in the result."""
        if self.is_starting(params["name"]):
            return self._call_later(request, params)
        return self._start_call(request, params)

    def is_starting(self, name: str) -> bool:
        """Whether a call has to wait for the sources: no source has published the tool, and some are starting."""
        return self._responses.is_waiting and self.index.get(name) is None

    async def _call_later(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        await self._responses.wait_for_sources()
        return await self._start_call(request, params)

    def _start_call(self, request: Request, params: Mapping[str, Any]) -> Coroutine[Any, Any, dict[str, Any]]:
        name = params["name"]
        if found := self.index.find_published(name):
            return self._run(request, *found, params.get("arguments"))
        built_in = self.index.get_built_in(name)
        if built_in is None:
            return self._call_unknown(request, params)
        return self._call_built_in(built_in, request, params.get("arguments"))

    async def _call_unknown(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        name = params["name"]
        absent = await self._registry.find_absent(name, request.incoming.client)
        found = self.index.find_published(name)
        if found is None and absent is not None:
            found = PreparedEntry(absent), to_wire(ToolDefinition(name, "", ""))
        if found is None:
            name = truncate_text(name)
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name}", {"name": name})
        return await self._run(request, *found, params.get("arguments"))

    def _call_built_in(
        self, built_in: ListedBuiltIn, request: Request, arguments: Any
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        given = built_in.tool.read_arguments(arguments)
        target = built_in.find_target(given, request) if built_in.find_target is not None else None
        if target is None:
            return self._run(request, built_in.prepared, built_in.tool, arguments)
        prepared, tool, *rest = target
        return self._run(request, prepared, tool or built_in.tool, *rest)

    async def _run(
        self,
        request: Request,
        prepared: PreparedEntry,
        tool: WireTool,
        given: Any,
        root: str = "$",
        call: ToolCall | None = None,
        convert: Callable[[ToolResult], ToolResult] | None = None,
    ) -> dict[str, Any]:
        """Run an entry as a tool. The parameters are described at `Target`."""
        version = request.version
        redactor, problems = self._responses.redactor, None
        try:
            if call is None:
                arguments, root = tool.read_arguments(given, root), root + tool.root[1:]
                call = ToolCall(id=str(request.id), name=tool.definition.name, arguments=arguments, root=root)
            result = await self._run_call(prepared, call, request)
        except InvalidArguments as error:  # a wrapped input is missing
            result, problems = to_error_result(error), describe_problems(error.details, prepared, redactor)
        if isinstance(result, dict):
            return self._responses.stamp(result)
        if result.is_error:
            raise_missing_capability(result, version)
            if problems is None and call is not None:
                problems = find_problems(result, prepared, call, redactor)
        elif convert is not None:
            result = convert(result)
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
