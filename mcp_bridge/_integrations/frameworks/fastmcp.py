"""The adapter for servers of FastMCP. They run in this process.

A call takes the shortest of three ways:

1. The function of a plain local tool is called directly.
2. A tool with a `Context` or a dependency runs through FastMCP's `Tool.run`.
3. A tool of another provider, and any tool of a server with middleware, runs through `FastMCP.call_tool`.

In each case, the `Context` of the call reaches the client of the bridge.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Self

import anyio

from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.frameworks.common import Json, is_a
from mcp_bridge._integrations.frameworks.sdk_calls import read_needs
from mcp_bridge._integrations.frameworks.sdk_server import (
    Handler,
    SdkServer,
    convert_error,
    convert_result,
    return_failure,
)
from mcp_bridge._integrations.frameworks.toolboxes import CLOSE_TIMEOUT, Toolbox
from mcp_bridge._protocol.wire.values import to_plain_text
from mcp_bridge._runtime.event_loop import is_on_asyncio

PACKAGE = "fastmcp"
_DEPENDENCIES = ("fastmcp.server.dependencies", "fastmcp.dependencies")
_FINDERS = {*_DEPENDENCIES, "get_context", "get_access_token", "get_http_headers", "get_http_request"}
"""A function whose code has one of these names may look for the current Context: it imports or calls it."""
_PLAIN = (str, int, bool)
# FastMCP marks a result that it has wrapped in an object.
_WRAPPED = {PACKAGE: {"wrap_result": True}}
_UI = "io.modelcontextprotocol/ui"
"""An extension of every server of FastMCP. It changes no call."""


def build_toolbox(server: Any) -> Toolbox:
    """Build a toolbox over a server. Opening it raises SourceError on event loops other than asyncio's."""
    return _FastMcpServer(server)


class _FastMcpServer(SdkServer):
    """A FastMCP server. Its client uses the handshake era, in which a server announces changes without a subscription.

    FastMCP announces a change if a tool changes the tools of its session, or sends the notification. It does not
    announce `add_tool`.
    """

    package = PACKAGE
    _bind: Any
    _has_extensions = False
    _context: Any
    _lifespan: Any

    async def __aenter__(self) -> Self:
        if not is_on_asyncio():
            raise SourceError(f"the FastMCP server '{self.server.name}' runs only on asyncio. Use that event loop")
        self.open_requests(self.server.auth)
        self._bind = import_module("fastmcp.server.dependencies").bind_request_context
        self._context = import_module(PACKAGE).Context
        package = import_module(PACKAGE)
        client = package.Client(self.server, mode="legacy", message_handler=self._handle_message)
        self.client = await client.__aenter__()
        try:
            async with self._context(fastmcp=self.server) as context:
                self._lifespan = context.lifespan_context
            # Only the newest version lists extensions.
            async with package.Client(self.server) as client:
                self._has_extensions = bool((client.server_capabilities.extensions or {}).keys() - {_UI})
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        client, self.client = self.client, None
        # This also ends the lifespan of the server.
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await client.__aexit__(*exc_info)

    async def list_page_items(self, kind: str) -> Sequence[Any]:
        items: Sequence[Any] = await getattr(self.client, f"list_{kind}")()
        return items

    def read_presentation(self) -> tuple[Any, str | None]:
        result = self.client.initialize_result
        return result.server_info, result.instructions

    async def build_handler(self, name: str) -> Handler:
        tool = await self.server.get_tool(name)
        has_middleware = any(
            not is_a(middleware, PACKAGE, "DereferenceRefsMiddleware") for middleware in self.server.middleware
        )
        is_plain = type(tool).__name__ == "FunctionTool" and tool.auth is None and not _has_app(tool)
        needs_server = has_middleware or self._has_extensions or not is_plain
        if not needs_server:
            direct_handler = _build_direct_handler(tool)
            if direct_handler is not None:
                return direct_handler

        async def run_on_server(arguments: Json, ctx: RunningCall) -> Any:
            with self._bind(self._build_request(ctx, "tools/call", {"name": name, "arguments": arguments})):
                if needs_server:
                    return _convert_result(await self.server.call_tool(name, arguments))
                async with self._context(fastmcp=self.server):
                    return _convert_result(await tool.run(arguments))

        async def run_with_context(data: Json, ctx: RunningCall) -> Any:
            return await return_failure(run_on_server(dict(data or {}), ctx), PACKAGE)

        return run_with_context

    async def fetch_contents(self, uri: str, ctx: RunningCall) -> Any:
        with self._bind(self._build_request(ctx, "resources/read", {"uri": uri})):
            result = await self.server.read_resource(uri)
        if hasattr(result, "input_required"):
            return result.input_required
        return result.contents, result.meta

    async def get_prompt(self, name: str, arguments: Json, ctx: RunningCall) -> Any:
        with self._bind(self._build_request(ctx, "prompts/get", {"name": name, "arguments": arguments})):
            result = await self.server.render_prompt(name, arguments)
        if hasattr(result, "input_required"):
            return result.input_required
        return result.to_mcp_prompt_result()

    async def list_completions(self, reference: Any, argument: Json, arguments: Json | None) -> Any:
        return await self.client.complete(reference, argument, arguments)

    def is_opaque(self, template: str) -> bool:
        """Return whether only the server can read the variables. Those of a query may be lists, with encoded commas."""
        return "{?" in template or super().is_opaque(template)

    def _build_request(self, ctx: RunningCall, method: str, params: Json) -> Any:
        return self.requests.build_request(ctx, method, params, self._lifespan)

    async def _handle_message(self, message: Any) -> None:
        if str(getattr(message, "method", None)).endswith("/list_changed"):
            self.report_change()


def _has_app(tool: Any) -> bool:
    """Return whether a tool is a part of an app. The server changes the results of such a tool."""
    meta = tool.meta or {}
    return "ui" in meta or "app" in (meta.get(PACKAGE) or {})


def _build_direct_handler(tool: Any) -> Handler | None:
    """Return a handler for the function of a tool, or None if FastMCP has to call the function.

    FastMCP has to call a function with a Context, a dependency or a timeout, a generator, and a function that may look
    for the current Context.
    """
    function = tool.fn
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    # With `run_in_thread=False`, a synchronous function has to run on the event loop.
    must_run_on_loop = not tool.run_in_thread and not is_async(function)
    if is_generator or tool.timeout or must_run_on_loop or _may_find_context(function):
        return None
    from mcp_bridge._engine.authoring import tool as decorate

    try:
        entry = decorate(function).tool_entry
    except Exception:
        # Only FastMCP can read the signature.
        return None
    # FastMCP gives the parameters that are missing from its schema a value, for example a dependency.
    if tool.parameters.get("properties", {}).keys() != entry.input_schema.get("properties", {}).keys():
        return None
    return _build_converting_handler(tool, entry.handler)


def _build_converting_handler(tool: Any, handler: Handler) -> Handler:
    async def convert_later(value: Any) -> Any:
        try:
            if inspect.isawaitable(value):
                value = await value
            if inspect.isasyncgen(value):
                value = [item async for item in value]
            return _convert_value(tool, value)
        except Exception as error:
            return convert_error(error, PACKAGE)

    async def run_async(data: Json) -> Any:
        return await convert_later(handler(data))

    def run_in_thread(data: Json) -> Any:
        try:
            value = handler(data)
            # The bridge awaits the coroutine in the event loop.
            if type(value) not in _PLAIN and (inspect.isawaitable(value) or inspect.isasyncgen(value)):
                return convert_later(value)
            return _convert_value(tool, value)
        except Exception as error:
            return convert_error(error, PACKAGE)

    return run_async if is_async(handler) else run_in_thread


def _convert_value(tool: Any, value: Any) -> Any:
    """Convert the return value of a function as FastMCP does, with a shortcut for the plainest types."""
    value_class, schema = type(value), tool.output_schema
    if value_class not in _PLAIN or value_class is not tool.return_type:
        if inspect.isgenerator(value):
            value = list(value)
        return _convert_result(tool.convert_result(value))
    content = [Text(value if value_class is str else to_plain_text(value))]
    if schema is None:
        return ToolResult(success=True, content=content)
    if schema.get("x-fastmcp-wrap-result"):
        return ToolResult(success=True, output={"result": value}, content=content, meta=_WRAPPED)
    return _convert_result(tool.convert_result(value))


def _convert_result(result: Any) -> Any:
    if hasattr(result, "input_required"):
        return read_needs(result.input_required)
    return convert_result(result)


def _may_find_context(function: Any) -> bool:
    """Return whether a function may reach FastMCP's `get_context` or a similar function.

    Such a function needs a Context, but no parameter shows it. The search looks at the names in the code of the
    function, and in the modules of all its values, except those of installed packages.
    """
    inner_function = inspect.unwrap(getattr(function, "__func__", function))
    names = getattr(inner_function, "__globals__", None)
    if names is None:
        return True
    # A function inside another one can also use the variables of the outer function.
    try:
        outer_names = inspect.getclosurevars(inner_function).nonlocals
    except ValueError:
        # A variable has no value yet.
        return True
    pending: list[Mapping[str, Any]] = [{"": inner_function}, outer_names, names]
    visited = {id(names)}
    while pending:
        scope = pending.pop()
        is_installed = "site-packages" in str(scope.get("__file__"))
        for value in list(scope.values()):
            if _uses_context(value):
                return True
            module = _get_module(value)
            module_values = getattr(sys.modules.get(module), "__dict__", {})
            if not is_installed and id(module_values) not in visited and _is_of_user(module):
                visited.add(id(module_values))
                pending.append(module_values)
    return False


def _get_module(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    owner = value if inspect.isfunction(value) or isinstance(value, type) else type(value)
    return str(owner.__module__)


def _is_of_user(module: str) -> bool:
    package = module.partition(".")[0]
    return package not in sys.stdlib_module_names and package not in (
        "fastmcp",
        "mcp",
        "mcp_bridge",
        "mcp_types",
        "pydantic",
    )


def _uses_context(value: Any) -> bool:
    """Return whether a value is a function of FastMCP, or the code of a user's function or class has their names."""
    if isinstance(value, ModuleType | FunctionType) and _get_module(value) in _DEPENDENCIES:
        return True
    if not _is_of_user(_get_module(value)):
        return False
    members = vars(value).values() if isinstance(value, type) else [value]
    for member in members:
        if inspect.isfunction(member):
            code = getattr(inspect.unwrap(member), "__code__", None)
            if code is not None and not _FINDERS.isdisjoint(code.co_names):
                return True
    return False
