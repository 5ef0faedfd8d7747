"""The shelf: resources and templates by URI, and the pages of their lists, made once per change."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp.shared.path_security import is_absolute_path
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.pages import Pages
from mcp_bridge.wire import listings
from mcp_bridge.wire.contents import to_contents

logger = logging.getLogger("mcp_bridge.server")

_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Found:
    """What is at a URI: the handler ready to be called, and its data."""

    prepared: Prepared
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template that URIs are matched with."""

    template: UriTemplate
    prepared: Prepared


class Shelf:
    """The registry's resources on the wire. `page` is the most entries in one answer."""

    def __init__(self, registry: ToolRegistry, *, page: int) -> None:
        self._registry = registry
        self._versions = (-1, -1)
        self._entries: dict[str, Prepared] = {}
        self._patterns: list[Pattern] = []
        self._pages = Pages("resources", page)
        self._template_pages = Pages("resourceTemplates", page)

    def page(self, version: str, cursor: str | None) -> Mapping[str, Any]:
        """One page of resources/list. Raises BadCursor."""
        self._refresh()
        return self._pages.page(version, cursor)

    def template_page(self, version: str, cursor: str | None) -> Mapping[str, Any]:
        """One page of resources/templates/list. Raises BadCursor."""
        self._refresh()
        return self._template_pages.page(version, cursor)

    def find(self, uri: str) -> Found | None:
        """What is at a URI: a resource of exactly this one, else the first template (by its text) that it fits."""
        self._refresh()
        prepared = self._entries.get(uri)
        if prepared is not None:
            return Found(prepared, {"uri": uri})
        for pattern in self._patterns:
            variables = pattern.template.match(uri)
            if variables is not None and all(_is_safe(value) for value in variables.values()):
                return Found(pattern.prepared, variables)
        return None

    def _refresh(self) -> None:
        resources, templates = self._registry.resources, self._registry.templates
        versions = (resources.version, templates.version)
        if versions == self._versions:
            return
        self._entries = {entry.uri: _prepared(entry) for entry in resources}
        self._pages.replace({entry.uri: partial(listings.resource, entry) for entry in resources})
        self._patterns = []
        shown: dict[str, Any] = {}
        for entry in templates:
            try:
                pattern = Pattern(UriTemplate.parse(entry.uri_template), _prepared(entry))
            except InvalidUriTemplate as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._patterns.append(pattern)
            shown[entry.uri_template] = partial(listings.template, entry)
        self._template_pages.replace(shown)
        self._versions = versions


def _prepared(entry: ResourceEntry | ResourceTemplate) -> Prepared:
    def reads(answer: Any, call: ToolCall) -> ToolResult:
        return to_contents(answer, call.name, entry.mime_type)

    return Prepared(entry, reads=reads)


def _is_safe(value: str | list[str]) -> bool:
    """Whether a variable's value leads nowhere else when it becomes part of a path (server/resources, "Security").

    Not down a `..` that comes back up either: where a link is on the way, it comes back somewhere else.
    """
    whole = "/".join(value) if isinstance(value, list) else value
    return "\0" not in whole and ".." not in _SEPARATORS.split(whole) and not is_absolute_path(whole)
