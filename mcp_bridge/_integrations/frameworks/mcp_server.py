"""The adapter for servers of the official MCP SDK (`MCPServer`). They run in this process.

Calls run through the server's public methods, with a request context of the bridge, inside the server's own middleware.
These methods ignore the server's extensions, which may intercept tool calls. If the server has extensions, its tools
are therefore called through the SDK's client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any, Self

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.frameworks.common import Json, get_package, is_a
from mcp_bridge._integrations.frameworks.sdk_calls import is_protocol_error
from mcp_bridge._integrations.frameworks.sdk_server import (
    Handler,
    SdkServer,
    convert_result,
    is_for_model,
    return_failure,
)
from mcp_bridge._integrations.frameworks.toolboxes import CLOSE_TIMEOUT, Toolbox

_CALL, _READ, _GET = "tools/call", "resources/read", "prompts/get"


def build_toolbox(server: Any) -> Toolbox:
    """Build a toolbox over a server."""
    return _McpServer(server)


class _McpServer(SdkServer):
    """An `MCPServer`. A separate task runs the client, and with it the lifespan of the server."""

    package = "mcp"

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self._lifespan: Any = {}
        self._bus = _ChangeBus(self.report_change)
        self._context: Any = None
        self._continuation: Any = None
        self._opened: Any = None

    async def __aenter__(self) -> Self:
        self.open_requests(self.server.settings.auth)
        self._context = import_module("mcp.server.mcpserver").Context
        self._continuation = import_module("mcp_types").InputResponseRequestParams
        self._opened = self._open_client()
        await self._opened.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._opened.__aexit__(*exc_info)

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[None]:
        closing = anyio.Event()
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._run_client, closing)
            try:
                yield
            finally:
                closing.set()

    async def _run_client(self, closing: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        """Keep the client open. The server's lifespan has to start and end in this task."""
        with anyio.CancelScope() as scope:
            # Only a request has the value of the lifespan. The client's first request passes this middleware.
            self.server.middleware.append(self._keep_lifespan)
            try:
                client = await import_module("mcp.client").Client(self.server).__aenter__()
            finally:
                self.server.middleware.remove(self._keep_lifespan)
            self.client = client
            # From now on, the task is ended only by `closing`, so that the lifespan can end in order.
            scope.shield = True
            task_status.started()
            await closing.wait()
            scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
            await client.__aexit__(None, None, None)

    async def list_page_items(self, kind: str) -> Sequence[Any]:
        items: list[Any] = []
        cursor = None
        while True:
            page = await getattr(self.client, f"list_{kind}")(cursor=cursor, cache_mode="bypass")
            items += getattr(page, kind)
            cursor = page.next_cursor
            if cursor is None:
                return items

    def read_presentation(self) -> tuple[Any, str | None]:
        return self.client.server_info, self.client.instructions

    async def build_handler(self, name: str) -> Handler:
        async def run_through_client(data: Json, ctx: RunningCall) -> Any:
            call = self.client.call_tool(name, dict(data or {}), progress_callback=ctx.report_progress)
            return convert_result(await return_failure(call, self.package))

        async def run_on_server(data: Json, ctx: RunningCall) -> Any:
            return convert_result(await self._run(_CALL, {"name": name, "arguments": dict(data or {})}, ctx))

        async def run_in_server(data: Json, ctx: RunningCall) -> Any:
            return await return_failure(run_on_server(data, ctx), self.package)

        if self.client.server_capabilities.extensions:
            return run_through_client
        return run_in_server

    async def fetch_contents(self, uri: str, ctx: RunningCall) -> Any:
        result = await self._run(_READ, {"uri": uri}, ctx)
        if is_a(result, "mcp_types", "InputRequiredResult"):
            return result
        return result, None

    async def get_prompt(self, name: str, arguments: Json, ctx: RunningCall) -> Any:
        return await self._run(_GET, {"name": name, "arguments": arguments}, ctx)

    async def list_completions(self, reference: Any, argument: Json, arguments: Json | None) -> Any:
        return (await self.client.complete(reference, argument, arguments)).completion

    async def _keep_lifespan(self, request: Any, call_next: Any) -> Any:
        """Store the value of the server's lifespan. This is a middleware of the first request."""
        self._lifespan = request.lifespan_context
        return await call_next(request)

    async def _run(self, method: str, params: Json, ctx: RunningCall) -> Any:
        request = self.requests.build_request(ctx, method, params, self._lifespan)
        # The SDK's own middleware traces calls and seals `requestState`, both of which the bridge does itself.
        user_middleware = [item for item in self.server.middleware if _get_package_of(item) != "mcp"]
        if not user_middleware:
            return await self._call_method(request)
        call_next = self._call_as_handler
        for middleware in reversed(user_middleware):
            call_next = partial(_call_middleware, middleware, call_next)
        return await call_next(request)

    async def _call_method(self, request: Any) -> Any:
        """Call the server's method for a request. Middleware may have changed the request."""
        params = request.params
        continuation = None
        if "inputResponses" in params or "requestState" in params:
            continuation = self._continuation.model_validate(params)
        context = self._context(
            request_context=request, mcp_server=self.server, input_params=continuation, subscriptions=self._bus
        )
        if request.method == _CALL:
            return await self.server.call_tool(params["name"], params.get("arguments") or {}, context)
        if request.method == _GET:
            return await self.server.get_prompt(params["name"], params.get("arguments"), context)
        return await self.server.read_resource(params["uri"], context)

    async def _call_as_handler(self, request: Any) -> Any:
        """Call the server's method as the innermost handler of middleware, for which errors of tools are results."""
        try:
            return await self._call_method(request)
        except Exception as error:
            if request.method != _CALL or is_protocol_error(error) or not is_for_model(error, self.package):
                raise
            text = {"type": "text", "text": str(error)}
            return import_module("mcp_types").CallToolResult.model_validate({"content": [text], "isError": True})


async def _call_middleware(middleware: Any, call_next: Any, request: Any) -> Any:
    """Call a middleware. With this order of parameters, a partial can leave the request open."""
    return await middleware(request, call_next)


def _get_package_of(middleware: Any) -> str:
    """Return the package of a middleware, a function or an object."""
    return str(getattr(middleware, "__module__", "")).partition(".")[0] or get_package(type(middleware))


class _ChangeBus:
    """The server's `SubscriptionBus`. It reports changes of lists and resources to the bridge."""

    def __init__(self, report_change: Callable[[], None]) -> None:
        self._report_change = report_change

    async def publish(self, event: Any) -> None:
        self._report_change()

    def subscribe(self, listener: Any) -> Callable[[], None]:
        """Do nothing, because the bridge itself implements subscriptions."""
        return lambda: None
