"""ResourceMethods: the lists of resources and templates, resources/read, and the subscriptions of the handshake era."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp_bridge._contracts.errors import ResourceNotFound
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.resource_finder import ResourceMatch
from mcp_bridge._protocol.wire import listings
from mcp_bridge._server.calls.runner import CallRunner
from mcp_bridge._server.change_notices import ChangeNotifier
from mcp_bridge._server.pages import Pages
from mcp_bridge._server.redaction import RequestError, echo
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses
from mcp_bridge._server.truncation import ResultTruncator


class ResourceMethods:
    """The MCP methods of resources and templates. `page` is the maximum number of entries of a page."""

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
        self._version = (-1, -1)
        self._pages = Pages("resources", page)
        self._template_pages = Pages("resourceTemplates", page)

    def list_resources(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/list. Raises RpcError for an invalid cursor."""
        return self._responses.when_ready(self._render_page, self._pages, request, params.get("cursor"))

    def list_templates(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/templates/list. Raises RpcError for an invalid cursor."""
        pages = self._template_pages
        return self._responses.when_ready(self._render_page, pages, request, params.get("cursor"))

    def render_lists(self, version: str, cursor: str | None) -> dict[str, Any]:
        """Return a page of the resources. The first page also has all templates. Raises BadCursor."""
        self._refresh()
        page = self._pages.render(version, cursor)
        if cursor is None:
            templates = self._registry.finder.list_templates()
            page["resourceTemplates"] = [listings.render_template(template, version) for template in templates]
        return page

    async def read_resource(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve resources/read.

        Raises RpcError. In both eras, "not found" has code -32602 and the URI (server/resources, "Error Handling").
        """
        uri = params["uri"]
        version = request.version
        # The rest of a truncated result is not in the registry.
        page = await self._truncator.read_page(uri, request.incoming.principal)
        if page is not None:
            return self._responses.with_cache_hints({"contents": [page]}, version, ttl_ms=0, scope="private")
        if self._registry.resources.get(uri) is None:
            await self._responses.wait_for_sources()
        match = self._find(uri)
        result = await self._runner.run_call(match.prepared, match.make_call(str(request.id)), request)
        if isinstance(result, dict):
            return self._responses.add_server_info(result)
        # Only the first read needs these modules, not the start.
        from mcp_bridge._protocol.wire.resource_contents import render_contents
        from mcp_bridge._protocol.wire.tools import render_meta

        checked_result = self._responses.check_success(result, version, key="uri", value=uri)
        contents = render_contents(checked_result, version)
        for item in contents:
            # The client gets the URI as it has written it.
            if item["uri"] == match.uri:
                item["uri"] = echo(uri)
        response = {"contents": contents, **render_meta(checked_result, version)}
        # The contents may depend on the caller, so clients must not share them.
        return self._responses.with_cache_hints(response, version, ttl_ms=0, scope="private")

    def subscribe(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve resources/subscribe of the handshake era. Raises RpcError for an unknown resource."""
        if not self._notifier.subscriptions.has_sources:
            return self._responses.when_ready(self._subscribe, request, params["uri"])
        return self._subscribe_everywhere(request, params["uri"])

    def unsubscribe(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve resources/unsubscribe of the handshake era. It succeeds even without a subscription."""
        assert request.session is not None
        self._notifier.unsubscribe(request.session, params["uri"])
        return {}

    async def _subscribe_everywhere(self, request: Request, uri: str) -> dict[str, Any]:
        """Subscribe a client, and wait until the sources follow the resource, too."""
        await self._responses.wait_for_sources()
        result = self._subscribe(request, uri)
        await self._notifier.subscriptions.wait_until_followed()
        return result

    def _subscribe(self, request: Request, uri: str) -> dict[str, Any]:
        assert request.session is not None
        self._find(uri)
        self._notifier.subscribe(request.session, uri)
        return {}

    def _render_page(self, pages: Pages, request: Request, cursor: str | None) -> Any:
        self._refresh()
        return self._responses.render_page(pages, request, cursor)

    def _find(self, uri: str) -> ResourceMatch:
        try:
            return self._registry.finder.find_resource(uri)
        except ResourceNotFound as error:
            raise RequestError(INVALID_PARAMS, str(error), {"uri": truncate_text(uri)}) from None

    def _refresh(self) -> None:
        finder = self._registry.finder
        version = finder.version
        if version == self._version:
            return
        self._pages.replace({entry.uri: partial(listings.render_resource, entry) for entry in self._registry.resources})
        templates = finder.list_templates()
        self._template_pages.replace(
            {entry.uri_template: partial(listings.render_template, entry) for entry in templates}
        )
        self._version = version
