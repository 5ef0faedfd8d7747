"""The oracle of the differential tests: the SDK's lowlevel server over a registry, for one client.

Its methods only run the registry's pipeline and render results by `wire/`. The SDK does the rest of the protocol.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.path_security import is_absolute_path
from mcp.shared.uri_template import UriTemplate
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY
from starlette.applications import Starlette

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import CompletionEntry, ResourceTemplate
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import adapt_completion
from mcp_bridge._json_schema.uris import find_ambiguity, normalize_uri
from mcp_bridge._protocol.wire import listings
from mcp_bridge._protocol.wire.messages import render_messages, to_messages
from mcp_bridge._protocol.wire.outcomes import REQUIRED, to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS
from mcp_bridge._protocol.wire.resource_contents import render_contents, to_contents
from mcp_bridge._protocol.wire.tools import COMPLETE, to_mcp, to_wire
from mcp_bridge._server.completions import rank_values
from mcp_bridge._server.pages import BadCursor, decode_cursor, encode_cursor
from tests.kits.oracle.oracle_context import OracleContext, SdkRequest

Json = dict[str, Any]
UNCACHED = {"ttlMs": 0, "cacheScope": "private"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover")


class OracleServer:
    """The SDK's server for one client. `run` serves a pair of streams."""

    def __init__(self, registry: ToolRegistry, identity: Identity) -> None:
        self._registry = registry
        self._page = identity.page
        self._level = "info"
        self._uris: set[str] = set()
        self._session: Any = None
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        hint = CacheHint(ttl_ms=identity.ttl_ms, scope="public")
        with warnings.catch_warnings():
            # Logging is deprecated.
            warnings.simplefilter("ignore")
            self._server: Server[Any] = Server(
                identity.name, version=identity.version, title=identity.title, instructions=identity.instructions,
                cache_hints=dict.fromkeys(LISTS, hint), on_list_tools=self._list_tools, on_call_tool=self._call_tool,
                on_list_resources=self._list_resources, on_list_resource_templates=self._list_templates,
                on_read_resource=self._read_resource, on_subscribe_resource=self._subscribe,
                on_unsubscribe_resource=self._unsubscribe, on_subscriptions_listen=self._listen,
                on_list_prompts=self._list_prompts, on_get_prompt=self._get_prompt, on_completion=self._complete,
                on_set_logging_level=self._set_level,
            )  # fmt: skip
        boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=identity.name)
        self._server.middleware.append(boundary)
        initialized = "notifications/initialized"
        self._server.add_notification_handler(initialized, types.NotificationParams, self._initialized)

    async def run(self, read: Any, write: Any) -> None:
        """Serve until the client closes its stream."""
        changes = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)
        async with anyio.create_task_group() as tasks:

            def announce(event: ServerEvent) -> None:
                tasks.start_soon(self._announce, event)

            registry = self._registry
            stops = [
                registry.watch(partial(announce, ToolsListChanged())),
                registry.resources.watch(partial(announce, ResourcesListChanged())),
                registry.prompts.watch(partial(announce, PromptsListChanged())),
                registry.watch_updates(lambda uri: announce(ResourceUpdated(uri))),
            ]
            await self._server.run(read, write, self._server.create_initialization_options(changes))
            for stop in stops:
                stop()
            tasks.cancel_scope.cancel()

    def make_app(self) -> Starlette:
        """Return the SDK's app. Unlike `run`, it serves many clients."""
        return self._server.streamable_http_app()

    def close_subscriptions(self) -> None:
        """End the listen streams, each with its result."""
        self._listen.close()

    async def _announce(self, event: ServerEvent) -> None:
        if self._session is not None and isinstance(event, ToolsListChanged):
            await self._session.send_tool_list_changed()
        if self._session is not None and isinstance(event, ResourceUpdated) and event.uri in self._uris:
            await self._session.send_resource_updated(event.uri)
        await self._bus.publish(event)

    async def _initialized(self, request: SdkRequest, params: types.NotificationParams) -> None:
        self._session = request.session

    async def _set_level(self, request: SdkRequest, params: types.SetLevelRequestParams) -> Json:
        self._level = params.level
        return {}

    async def _subscribe(self, request: SdkRequest, params: types.SubscribeRequestParams) -> Json:
        self._find_resource(params.uri)
        self._uris.add(params.uri)
        self._session = self._session or request.session
        return {}

    async def _unsubscribe(self, request: SdkRequest, params: types.UnsubscribeRequestParams) -> Json:
        self._uris.discard(params.uri)
        return {}

    def _render_page(self, field: str, items: Mapping[str, Callable[[str], Json]], cursor: Any, version: str) -> Json:
        try:
            after = "" if cursor is None else decode_cursor(cursor)
        except BadCursor:
            raise MCPError(INVALID_PARAMS, "Invalid cursor", {"cursor": cursor}) from None
        names = sorted(name for name in items if name > after or cursor is None)
        page = {**_complete(version), field: [items[name](version) for name in names[: self._page]]}
        return page if len(names) <= self._page else {**page, "nextCursor": encode_cursor(names[self._page - 1])}

    async def _list_tools(self, request: SdkRequest, params: types.PaginatedRequestParams) -> Json:
        tools = [to_wire(entry.to_tool_definition()) for entry in self._registry.list()]
        items = {tool.name: tool.render_listing for tool in tools}
        return self._render_page("tools", items, params.cursor, request.protocol_version)

    async def _list_resources(self, request: SdkRequest, params: types.PaginatedRequestParams) -> Json:
        items = {entry.uri: partial(listings.render_resource, entry) for entry in self._registry.resources}
        return self._render_page("resources", items, params.cursor, request.protocol_version)

    async def _list_templates(self, request: SdkRequest, params: types.PaginatedRequestParams) -> Json:
        items = {entry.uri_template: partial(listings.render_template, entry) for entry in self._registry.templates}
        return self._render_page("resourceTemplates", items, params.cursor, request.protocol_version)

    async def _list_prompts(self, request: SdkRequest, params: types.PaginatedRequestParams) -> Json:
        items = {entry.name: partial(listings.render_prompt, entry) for entry in self._registry.prompts}
        return self._render_page("prompts", items, params.cursor, request.protocol_version)

    async def _call_tool(self, request: SdkRequest, params: types.CallToolRequestParams) -> Json:
        tools = {tool.name: tool for tool in (to_wire(entry.to_tool_definition()) for entry in self._registry.list())}
        tool = tools.get(params.name)
        prepared = self._registry.get_prepared(tool.definition.name) if tool is not None else None
        if tool is None or prepared is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}", {"name": params.name})
        try:
            arguments = tool.read_arguments(params.arguments)
            result = await self._run(request, params, prepared, tool.definition.name, arguments, "tool")
        except InvalidArguments as error:
            result = to_error_result(error)
        return result if isinstance(result, dict) else to_mcp(result, tool, request.protocol_version)

    async def _read_resource(self, request: SdkRequest, params: types.ReadResourceRequestParams) -> Json:
        prepared, arguments = self._find_resource(params.uri)
        result = await self._run(request, params, prepared, params.uri, arguments, "resource")
        if isinstance(result, dict):
            return result
        contents = render_contents(_check_success(result, uri=params.uri), request.protocol_version)
        hints = UNCACHED if request.protocol_version == STATELESS else {}
        return {**_complete(request.protocol_version), "contents": contents, **hints}

    def _find_resource(self, uri: str) -> tuple[PreparedEntry, Mapping[str, Any]]:
        entry: Any
        # The SDK compares URIs as they are written.
        normalized = normalize_uri(uri)
        for entry in self._registry.resources:
            if normalize_uri(entry.uri) == normalized:
                return _prepare_resource(entry), {"uri": entry.uri}
        for entry in self._registry.templates:
            variables = UriTemplate.parse(entry.uri_template).match(normalized)
            if variables is not None and find_ambiguity(normalized) is None and all(map(_is_safe, variables.values())):
                return _prepare_resource(entry), variables
        raise MCPError(INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})

    async def _get_prompt(self, request: SdkRequest, params: types.GetPromptRequestParams) -> Json:
        entry = self._registry.prompts.get(params.name)
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}", {"name": params.name})
        schema = {
            "type": "object",
            "properties": {argument.name: {"type": "string"} for argument in entry.arguments},
            "required": [argument.name for argument in entry.arguments if argument.required],
            "additionalProperties": False,
        }
        prepared = PreparedEntry(entry, input_schema=schema, read_result=lambda value, _: to_messages(value))
        result = await self._run(request, params, prepared, params.name, params.arguments or {}, "prompt")
        if isinstance(result, dict):
            return result
        messages = render_messages(_check_success(result, name=params.name).content or (), request.protocol_version)
        description = {"description": entry.description} if entry.description else {}
        return {**_complete(request.protocol_version), **description, "messages": messages}

    async def _complete(self, request: SdkRequest, params: types.CompleteRequestParams) -> Json:
        ref, argument = params.ref, params.argument.name
        entry: Any
        if isinstance(ref, types.PromptReference):
            name, entry, data = ref.name, self._registry.prompts.get(ref.name), {"name": ref.name}
        else:
            name, entry, data = ref.uri, self._registry.templates.get(ref.uri), {"uri": ref.uri}
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"Unknown: {name}", data)
        if argument not in _list_arguments(entry):
            raise MCPError(INVALID_PARAMS, f"{name} has no argument {argument!r}", {"argument": argument})
        offered: Any = entry.completions.get(argument, ())
        if callable(offered):
            prepared = PreparedEntry(CompletionEntry(adapt_completion(offered), entry))
            known = (params.context.arguments if params.context is not None else None) or {}
            arguments = {"argument": argument, "value": params.argument.value, "known": known}
            result = await self._run(request, params, prepared, name, arguments, "completion")
            assert isinstance(result, ToolResult)
            offered = _check_success(result, name=name).output
        values, total = rank_values([str(value) for value in offered], params.argument.value)
        completion = {"values": values, "total": total, "hasMore": total > len(values)}
        return {**_complete(request.protocol_version), "completion": completion}

    async def _run(
        self, request: SdkRequest, params: Any, prepared: PreparedEntry, name: str, arguments: Any, kind: Any
    ) -> ToolResult | Json:
        """Run a call. Returns its result, or an `input_required` result; a retried call has all answers so far."""
        state = getattr(params, "request_state", None)
        new = (request.params or {}).get("inputResponses") or {}
        answers = {**(json.loads(state) if state is not None else {}), **(new if state is not None else {})}
        context = OracleContext(request, self._registry, self._level, answers)
        call = ToolCall(id=str(request.request_id), name=name, arguments=arguments, kind=kind)
        result = await self._registry.run_prepared(prepared, call, context)
        if context.asked:
            requests = {key: question.to_mcp([]) for key, question in context.asked.items()}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": json.dumps(answers)}
        if request.protocol_version == STATELESS and REQUIRED in (result.meta or {}):
            data = {REQUIRED: (result.meta or {})[REQUIRED]}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, result.error_text, data)
        return result


def _complete(version: str) -> Json:
    return dict(COMPLETE) if version == STATELESS else {}


def _prepare_resource(entry: Any) -> PreparedEntry:
    return PreparedEntry(entry, read_result=lambda value, call: to_contents(value, call.name, entry.mime_type))


def _is_safe(value: str | list[str]) -> bool:
    path = "/".join(value) if isinstance(value, list) else value
    return "\0" not in path and ".." not in path.replace("\\", "/").split("/") and not is_absolute_path(path)


def _list_arguments(entry: PromptEntry | ResourceTemplate) -> list[str]:
    if isinstance(entry, PromptEntry):
        return [argument.name for argument in entry.arguments]
    return UriTemplate.parse(entry.uri_template).variable_names


def _check_success(result: ToolResult, **place: str) -> ToolResult:
    if not result.is_error:
        return result
    code = INVALID_PARAMS if result.code == InvalidArguments.code else INTERNAL_ERROR
    raise MCPError(code, result.error_text, {**place, "code": result.code})
