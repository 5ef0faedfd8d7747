"""resources/list, resources/templates/list, resources/read, resources/subscribe and resources/unsubscribe."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import PreparedEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.uri_templates import UriTemplate
from mcp_bridge.server.calls import CallRunner
from mcp_bridge.server.change_notices import ChangeNotifier
from mcp_bridge.server.context import Request
from mcp_bridge.server.pages import Pages
from mcp_bridge.server.responses import Responses, check_success, truncate_text, with_cache_hints
from mcp_bridge.server.truncation import ResultTruncator
from mcp_bridge.wire import listings
from mcp_bridge.wire.resource_contents import render_contents, to_contents

logger = logging.getLogger("mcp_bridge.server")

_SEPARATORS = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")  # on Windows, C:x belongs to drive C wherever it is joined to


def _prepare_resource(entry: ResourceEntry | ResourceTemplate) -> PreparedEntry:
    def read_contents(value: Any, call: ToolCall) -> ToolResult:
        return to_contents(value, call.name, entry.mime_type)

    return PreparedEntry(entry, read_result=read_contents)


def _is_safe(value: str | list[str]) -> bool:
    """Whether a variable's value stays in its folder when it becomes part of a path (server/resources, "Security").

    A `..` that leads down and up again is not safe either: behind a symbolic link it leads somewhere else.
    """
    path = "/".join(value) if isinstance(value, list) else value
    return "\0" not in path and ".." not in _SEPARATORS.split(path) and not _ABSOLUTE.match(path)


class ResourceMethods:
    """The MCP methods of resources and templates. `page` is the most entries per page."""

    def __init__(
        self,
        registry: ToolRegistry,
        runner: CallRunner,
        responses: Responses,
        notifier: ChangeNotifier,
        truncator: ResultTruncator,
        *,
        page: int,
    ) -> None:
        self._registry = registry
        self._runner = runner
        self._responses = responses
        self._notifier = notifier
        self._truncator = truncator
        self._versions = (-1, -1)
        self._entries: dict[str, PreparedEntry] = {}
        self._matchers: list[tuple[UriTemplate, PreparedEntry]] = []
        self._pages = Pages("resources", page)
        self._template_pages = Pages("resourceTemplates", page)

    async def list_resources(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        await self._responses.wait_for_sources()
        self._refresh()
        return self._responses.render_page(self._pages.get_page, request.protocol_version, params.cursor)

    async def list_templates(self, request: Request, params: types.PaginatedRequestParams) -> dict[str, Any]:
        await self._responses.wait_for_sources()
        self._refresh()
        return self._responses.render_page(self._template_pages.get_page, request.protocol_version, params.cursor)

    async def read_resource(self, request: Request, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        """Serve resources/read.

        Raises MCPError. In both eras, "not found" has code -32602 and the URI (server/resources, "Error Handling").
        """
        uri, version = str(params.uri), request.protocol_version
        if (page := await self._truncator.read_page(uri)) is not None:
            return with_cache_hints({"contents": [page]}, version, ttl_ms=0, scope="private")
        await self._responses.wait_for_sources()
        prepared, arguments = self._find(uri)
        call = ToolCall(id=str(request.request_id), name=uri, arguments=arguments, kind="resource")
        result = await self._runner.run_call(prepared, call, request)
        if isinstance(result, dict):
            return result
        rendered = {"contents": render_contents(check_success(result, version, uri=uri), version)}
        return with_cache_hints(rendered, version, ttl_ms=0, scope="private")  # it may depend on the caller

    async def subscribe(self, request: Request, params: types.SubscribeRequestParams) -> dict[str, Any]:
        await self._responses.wait_for_sources()
        self._find(str(params.uri))
        self._notifier.subscribe(request, str(params.uri))
        return {}

    async def unsubscribe(self, request: Request, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        """Serve resources/unsubscribe of the handshake era; the client need not be subscribed."""
        self._notifier.unsubscribe(request, str(params.uri))
        return {}

    def _find(self, uri: str) -> tuple[PreparedEntry, Mapping[str, Any]]:
        """Return the resource with exactly this URI, else the first matching template in alphabetical order.

        The second item is the arguments of its handler.
        """
        self._refresh()
        if (prepared := self._entries.get(uri)) is not None:
            return prepared, {"uri": uri}
        for template, prepared in self._matchers:
            variables = template.match(uri)
            if variables is not None and all(_is_safe(value) for value in variables.values()):
                return prepared, variables
        uri = truncate_text(uri)
        raise MCPError(INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})

    def _refresh(self) -> None:
        resources, templates = self._registry.resources, self._registry.templates
        versions = (resources.version, templates.version)
        if versions == self._versions:
            return
        self._entries = {entry.uri: _prepare_resource(entry) for entry in resources}
        self._pages.replace({entry.uri: partial(listings.render_resource, entry) for entry in resources})
        self._matchers = []
        listed: dict[str, Any] = {}
        for entry in templates:
            try:
                template = UriTemplate(entry.uri_template)
            except ValueError as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._matchers.append((template, _prepare_resource(entry)))
            listed[entry.uri_template] = partial(listings.render_template, entry)
        self._template_pages.replace(listed)
        self._versions = versions
