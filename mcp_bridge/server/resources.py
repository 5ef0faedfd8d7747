"""resources/list, resources/templates/list, resources/read, resources/subscribe and resources/unsubscribe."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_bridge.contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import PreparedEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.calls import CallRunner
from mcp_bridge.server.change_notices import ChangeNotifier
from mcp_bridge.server.client_text import RequestError, echo
from mcp_bridge.server.pages import Pages
from mcp_bridge.server.requests import Request
from mcp_bridge.server.responses import Responses, truncate_text
from mcp_bridge.server.truncation import ResultTruncator
from mcp_bridge.wire import listings
from mcp_bridge.wire.resource_contents import render_contents, to_contents

if TYPE_CHECKING:
    from mcp_bridge.schema.uri_templates import UriTemplate

logger = logging.getLogger("mcp_bridge.server")

_SEPARATORS = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")  # on Windows, C:x belongs to drive C wherever it is joined to


def _prepare_resource(entry: ResourceEntry | ResourceTemplate) -> PreparedEntry:
    def read_contents(value: Any, call: ToolCall) -> ToolResult:
        return to_contents(value, call.name, entry.mime_type)

    return PreparedEntry(entry, read_result=read_contents)


def _parse_template(text: str) -> UriTemplate:
    from mcp_bridge.schema.uri_templates import UriTemplate  # a start without templates does not need it

    return UriTemplate(text)


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

    def list_resources(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, self._pages, request, params.get("cursor"))

    def list_templates(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/templates/list. Raises RpcError for an invalid cursor."""
        pages = self._template_pages
        return self._responses.when_ready(self._render_page, pages, request, params.get("cursor"))

    async def read_resource(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve resources/read.

        Raises RpcError. In both eras, "not found" has code -32602 and the URI (server/resources, "Error Handling").
        """
        uri, version = params["uri"], request.version
        if (page := await self._truncator.read_page(uri, request.incoming.principal)) is not None:
            return self._responses.with_cache_hints({"contents": [page]}, version, ttl_ms=0, scope="private")
        await self._responses.wait_for_sources()
        prepared, arguments = self._find(uri)
        call = ToolCall(id=str(request.id), name=uri, arguments=arguments, kind="resource")
        result = await self._runner.run_call(prepared, call, request)
        if isinstance(result, dict):
            return self._responses.stamp(result)
        contents = render_contents(self._responses.check_success(result, version, uri=uri), version)
        for item in contents:
            if item["uri"] == uri:
                item["uri"] = echo(uri)
        rendered = {"contents": contents}
        # it may depend on the caller
        return self._responses.with_cache_hints(rendered, version, ttl_ms=0, scope="private")

    def subscribe(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/subscribe of the handshake era. Raises RpcError for an unknown resource."""
        return self._responses.when_ready(self._subscribe, request, params["uri"])

    def unsubscribe(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve resources/unsubscribe of the handshake era; the client need not be subscribed."""
        assert request.session is not None
        self._notifier.unsubscribe(request.session, params["uri"])
        return {}

    def _subscribe(self, request: Request, uri: str) -> dict[str, Any]:
        assert request.session is not None
        self._find(uri)
        self._notifier.subscribe(request.session, uri)
        return {}

    def _render_page(self, pages: Pages, request: Request, cursor: str | None) -> Any:
        self._refresh()
        return self._responses.render_page(pages, request, cursor)

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
        raise RequestError(INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})

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
                template = _parse_template(entry.uri_template)
            except ValueError as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._matchers.append((template, _prepare_resource(entry)))
            listed[entry.uri_template] = partial(listings.render_template, entry)
        self._template_pages.replace(listed)
        self._versions = versions
