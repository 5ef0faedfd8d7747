"""ToolMethods: tools/list and tools/call, and ToolIndex, the tools as clients see them.

In addition to the tools of sources, the server has built-in tools of its own. Some of them name another entry: for
example, `call_tool` names a tool. A call of such a tool runs the other entry, in its own pipeline, so policies, limits
and the log see the entry that really runs. The handler of the built-in tool itself runs only if there is no such entry,
or if the arguments are invalid.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge._contracts.listing import CALL_TOOL, LIST_ALL, SEARCH_TOOLS, BuiltInEntry, ToolListing
from mcp_bridge._contracts.tool import ToolCall, ToolDefinition, ToolEntry, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.headers import check_headers
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge._protocol.wire.tools import INPUT, WireTool, to_mcp, to_wire
from mcp_bridge._server.pages import Pages
from mcp_bridge._server.redaction import RequestError, describe_problems, echo, find_problems
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses, raise_missing_capability
from mcp_bridge._server.truncation import ResultTruncator

RunCall = Callable[[PreparedEntry, ToolCall, Request], Awaitable[ToolResult | dict[str, Any]]]
"""Runs a call. Returns its result, or an `input_required` result for the client."""

logger = logging.getLogger("mcp_bridge.server")
TEXT: Mapping[str, Any] = {"type": "string"}
"""The schema of a text argument."""
_SEARCH_NAMES = (SEARCH_TOOLS, CALL_TOOL)


class Target(NamedTuple):
    """What a call runs: a published tool, a built-in one, or the entry that a built-in one names.

    Attributes:
        prepared: The entry to run.
        tool: The tool for whose name and schemas the result is rendered.
        arguments: The arguments of the client for `tool`.
        root: The path of these arguments in the message of the client, for errors.
        call: The call of an entry that is not a tool.
        convert: Turns the result of the entry into the result of a tool.
    """

    prepared: PreparedEntry
    tool: WireTool
    arguments: Any = None
    root: str = "$"
    call: ToolCall | None = None
    convert: Callable[[ToolResult], ToolResult] | None = None


FindTarget = Callable[[Mapping[str, Any], Request, WireTool], Target | None]
"""Returns what a call with these arguments runs in place of the built-in tool, or None for the tool itself."""


class BuiltInTool(NamedTuple):
    """A built-in tool."""

    entry: ToolEntry
    find_target: FindTarget | None = None


class ListedBuiltIn(NamedTuple):
    """A built-in tool, ready to be listed and called."""

    tool: WireTool
    prepared: PreparedEntry
    find_target: FindTarget | None


class ToolIndex:
    """The tools as clients see them, by their names for clients. It is rebuilt after each change of the registry.

    `page` is the maximum number of tools of a page, `dialect` rewrites their schemas, and `listing` selects the listed
    ones.
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
        self._unlisted_names: Set[str] = frozenset()
        self._built_in: dict[str, ListedBuiltIn] = {}
        self._pages = Pages("tools", page)

    def get(self, name: str) -> WireTool | None:
        """Return the tool with this name for clients."""
        if self._version != self._registry.tools.version:
            self._refresh()
        return self._tools.get(name)

    def find_published(self, name: str) -> tuple[PreparedEntry, WireTool] | None:
        """Return the prepared tool with this name for clients, and the tool as they see it."""
        # Every call passes this method, so the two lines of `get` are repeated here.
        if self._version != self._registry.tools.version:
            self._refresh()
        tool = self._tools.get(name)
        if tool is None:
            return None
        prepared = self._registry.get_prepared(tool.definition.name)
        if prepared is None:
            return None
        return prepared, tool

    def find_built_in(self, request: Request, params: Mapping[str, Any]) -> Target | None:
        """Return what a request of tools/call runs if it names a built-in tool, or None."""
        built_in = self._built_in.get(params["name"])
        if built_in is None:
            return None
        arguments = params.get("arguments")
        if built_in.find_target is not None:
            target = built_in.find_target(built_in.tool.read_arguments(arguments), request, built_in.tool)
            if target is not None:
                return target
        return Target(built_in.prepared, built_in.tool, arguments)

    def find_called(self, request: Request, params: Mapping[str, Any]) -> PreparedEntry | None:
        """Return the entry of a source that a request of tools/call runs, or None."""
        published = self.find_published(params["name"])
        if published is not None:
            return published[0]
        target = self.find_built_in(request, params)
        if target is None or isinstance(target.prepared.entry, BuiltInEntry):
            return None
        return target.prepared

    def has_tool(self, name: str) -> bool:
        """Return whether clients can call a tool by this name."""
        return self.get(name) is not None or name in self._built_in

    def list_tools(self) -> list[WireTool]:
        """Return the listed tools of the registry, sorted by name."""
        if self._version != self._registry.tools.version:
            self._refresh()
        return [tool for name, tool in self._tools.items() if name not in self._unlisted_names]

    def add_built_in(self, tools: Iterable[BuiltInTool]) -> None:
        """Add built-in tools. They are not in the registry."""
        for entry, find_target in tools:
            tool = self._present(entry.to_tool_definition())
            self._built_in[entry.name] = ListedBuiltIn(tool, PreparedEntry(entry), find_target)

    def get_pages(self) -> Pages:
        """Return the pages of tools/list."""
        if self._version != self._registry.tools.version:
            self._refresh()
        return self._pages

    def _refresh(self) -> None:
        version = self._registry.tools.version
        old_tools = {tool.definition.name: tool for tool in self._tools.values()}
        tools: dict[str, WireTool] = {}
        unlisted_names: set[str] = set()
        for entry in self._registry.list_with_unlisted():
            definition = entry.to_tool_definition()
            old = old_tools.get(entry.name)
            if entry.name in self._built_in:
                logger.error("tool %r is not served: the settings add a tool of this name. Rename one", entry.name)
            elif old is not None and old.definition == definition:
                # Presenting a tool again would cost more, and give the same result.
                tools.setdefault(old.name, old)
            elif problems := check_headers(definition.input_schema):
                # Clients would reject such a tool, or send a secret in a header.
                logger.error("tool %r is not served: input schema %s", entry.name, "; ".join(problems))
            else:
                tool = self._present(definition)
                tools.setdefault(tool.name, tool)
            if not entry.is_listed:
                unlisted_names.add(to_client_name(entry.name))
        self._tools = tools
        self._unlisted_names = unlisted_names
        self._pages.replace({tool.name: tool.render_listing for tool in self._select_listed()})
        self._version = version

    def _select_listed(self) -> list[WireTool]:
        """Return the tools in tools/list. Those for searching are among them only if other tools are left out."""
        tools = [tool for name, tool in self._tools.items() if name not in self._unlisted_names]
        names = set(self._listing.select_listed([tool.definition.name for tool in tools]))
        listed_tools = [tool for tool in tools if tool.definition.name in names]
        needs_search = len(names) < len(tools)
        for name, built_in in self._built_in.items():
            if needs_search or name not in _SEARCH_NAMES:
                listed_tools.append(built_in.tool)
        return listed_tools

    def _present(self, definition: ToolDefinition) -> WireTool:
        tool = to_wire(definition)
        if not self._dialect.is_active:
            return tool
        # A server without a dialect starts faster without this module.
        from mcp_bridge._protocol.dialects.rewriting import rewrite_tool

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

    def list_tools(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve tools/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, request, params.get("cursor"))

    async def call(
        self, request: Request, params: Mapping[str, Any], run_call: RunCall | None = None
    ) -> dict[str, Any]:
        """Serve tools/call. Raises RpcError for an unknown tool. Other errors are in the result, for the model.

        `run_call` runs the call, for example as a task. By default, the CallRunner of the endpoint does.
        """
        published = self.index.find_published(params["name"])
        if published is not None:
            target = Target(*published, params.get("arguments"))
        else:
            target = await self._find_target(request, params)
        prepared, tool, arguments, root, call, convert = target
        version = request.version
        redactor = self._responses.redactor
        # The text of an error about the client's own arguments, which is not redacted.
        problems = None
        try:
            if call is None:
                data = tool.read_arguments(arguments, root)
                root = f"{root}.{INPUT}" if tool.wraps_input else root
                call = ToolCall(id=str(request.id), name=tool.definition.name, arguments=data, root=root)
            result = await (run_call or self._run_call)(prepared, call, request)
        except InvalidArguments as error:
            # The tool takes another value than an object, which clients send as `input`, and `input` is missing.
            result = to_error_result(error)
            problems = describe_problems(error.details, prepared, redactor)
        # A dict means that the call asks the client.
        if isinstance(result, dict):
            return self._responses.add_server_info(result)
        if result.is_error:
            raise_missing_capability(result, version)
            if problems is None and call is not None:
                problems = find_problems(result, prepared, call, redactor)
        elif convert is not None:
            result = convert(result)
        size = result.encoded.size if result.encoded is not None else None
        response = to_mcp(result, tool, version)
        if not self._truncator.is_small(response, size):
            response = await self._truncator.truncate(
                response,
                version,
                declared=tool.output_schema is not None,
                output_size=size,
                principal=request.incoming.principal,
            )
        # A text that was truncated differs, and stays redacted.
        if problems is not None and response["content"][0]["text"] == result.error_text:
            response["content"][0] = {"type": "text", "text": echo(problems)}
        return self._responses.add_server_info(response) if has_feature(version, STATELESS) else response

    async def wait_for_tool(self, name: str) -> None:
        """Wait for the sources, if some are starting and none has published the tool."""
        if self._responses.is_waiting and self.index.get(name) is None:
            await self._responses.wait_for_sources()

    async def _find_target(self, request: Request, params: Mapping[str, Any]) -> Target:
        """Return what a call runs whose tool is not published yet, is built-in, or is missing.

        Raises RpcError for an unknown tool.
        """
        name = params["name"]
        arguments = params.get("arguments")
        await self.wait_for_tool(name)
        published = self.index.find_published(name)
        if published is None:
            target = self.index.find_built_in(request, params)
            if target is not None:
                return target
            # A source that is not connected may have the tool, so it gets the chance to connect.
            substitute = await self._registry.find_absent(name, request.incoming.client)
            published = self.index.find_published(name)
            if published is None and substitute is not None:
                published = PreparedEntry(substitute), to_wire(ToolDefinition(name, "", ""))
        if published is None:
            name = truncate_text(name)
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name}", {"name": name})
        return Target(*published, arguments)

    def _render_page(self, request: Request, cursor: str | None) -> Any:
        return self._responses.render_page(self.index.get_pages(), request, cursor)


def build_tool(
    handler: Callable[..., Any],
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: Sequence[str] = (),
    *,
    reads: bool = True,
    find_target: FindTarget | None = None,
) -> BuiltInTool:
    """Build a built-in tool. If `reads`, the tool changes nothing."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    schema["additionalProperties"] = False
    annotations = {"readOnlyHint": True, "openWorldHint": False} if reads else {}
    return BuiltInTool(BuiltInEntry(name, description, handler, schema, annotations=annotations), find_target)


def read_reference(arguments: Mapping[str, Any], key: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the arguments of the entry that a built-in tool has to call.

    The name is the argument `key`. Returns None if the arguments have another form.
    """
    name = arguments.get(key)
    entry_arguments = arguments.get("arguments", {})
    if not isinstance(name, str) or not isinstance(entry_arguments, dict):
        return None
    if not arguments.keys() <= {key, "arguments"}:
        return None
    return name, entry_arguments
