"""Finds the resource that a URI names: one with exactly this URI, or one of a template."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import PreparedEntry
from mcp_bridge.registry.catalog import Catalog

if TYPE_CHECKING:
    from mcp_bridge.schema.uri_templates import UriTemplate

logger = logging.getLogger("mcp_bridge.server")

_SEPARATORS = r"[/\\]"
_ABSOLUTE = r"[/\\]|[A-Za-z]:"  # on Windows, C:x belongs to drive C wherever it is joined to


class ResourceFinder:
    """The published resources and templates, ready to be read; prepared again after each change of the catalogs."""

    def __init__(self, resources: Catalog[ResourceEntry], templates: Catalog[ResourceTemplate]) -> None:
        self._resources = resources
        self._templates = templates
        self._version = (-1, -1)
        self._entries: dict[str, PreparedEntry] = {}
        self._matchers: list[tuple[UriTemplate, PreparedEntry]] = []
        self._listed: list[ResourceTemplate] = []

    @property
    def version(self) -> tuple[int, int]:
        """Changes with every change of the catalogs."""
        return (self._resources.version, self._templates.version)

    def list_templates(self) -> Sequence[ResourceTemplate]:
        """Return the templates that can be matched; the others are logged."""
        self._refresh()
        return self._listed

    def find_resource(self, uri: str) -> tuple[PreparedEntry, Mapping[str, Any]] | None:
        """Return the resource with exactly this URI, else the first matching template in alphabetical order, or None.

        The second item is the arguments of its handler.
        """
        self._refresh()
        if (prepared := self._entries.get(uri)) is not None:
            return prepared, {"uri": uri}
        for template, prepared in self._matchers:
            variables = template.match(uri)
            if variables is not None and all(_is_safe(value) for value in variables.values()):
                return prepared, variables
        return None

    def _refresh(self) -> None:
        version = self.version
        if version == self._version:
            return
        self._entries = {entry.uri: _prepare_resource(entry) for entry in self._resources}
        self._matchers, self._listed = [], []
        for entry in self._templates:
            try:
                template = _parse_template(entry.uri_template)
            except ValueError as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._matchers.append((template, _prepare_resource(entry)))
            self._listed.append(entry)
        self._version = version


def _prepare_resource(entry: ResourceEntry | ResourceTemplate) -> PreparedEntry:
    def read_contents(value: Any, call: ToolCall) -> ToolResult:
        from mcp_bridge.wire.resource_contents import to_contents  # a start does not need it

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
    return "\0" not in path and ".." not in re.split(_SEPARATORS, path) and not re.match(_ABSOLUTE, path)
