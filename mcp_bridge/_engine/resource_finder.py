"""Finds the published entry for a URI: a resource with this URI, or a matching template.

A template passes parts of the URI to its handler. The handler may use them in a path. So a URI whose parts could lead
out of a folder is not found.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_bridge._contracts.errors import ResourceNotFound
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.entry_table import EntryTable
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._json_schema.uris import find_ambiguity, find_unsafe_step, normalize_uri

if TYPE_CHECKING:
    from mcp_bridge._json_schema.uri_templates import OpaqueTemplate, UriTemplate

logger = logging.getLogger("mcp_bridge.server")

_ABSOLUTE_PATH = re.compile(r"[/\\]|[A-Za-z]:")
"""The start of an absolute path. On Windows, joining a folder and `C:x` leads to drive C."""
_MAX_SHOWN = 256
"""The maximum number of characters of a URI in an error."""


class ResourceMatch(NamedTuple):
    """The entry for a URI, and the arguments of its handler. `uri` is the URI in the spelling that policies compare."""

    prepared: PreparedEntry
    uri: str
    arguments: Mapping[str, Any]

    def make_call(self, call_id: str) -> ToolCall:
        """Make the call to read the resource."""
        return ToolCall(id=call_id, name=self.uri, arguments=self.arguments, kind="resource")


class _Matcher(NamedTuple):
    template: UriTemplate | OpaqueTemplate
    entry: ResourceTemplate
    prepared: PreparedEntry


class ResourceFinder:
    """Finds resources and templates in the tables of a registry, and prepares them again after each change."""

    def __init__(self, resources: EntryTable[ResourceEntry], templates: EntryTable[ResourceTemplate]) -> None:
        self._resources = resources
        self._templates = templates
        self._version = (-1, -1)
        self._entries: dict[str, tuple[ResourceEntry, PreparedEntry]] = {}
        self._matchers: list[_Matcher] = []
        self._listed: list[ResourceTemplate] = []

    @property
    def version(self) -> tuple[int, int]:
        """The versions of both tables. They change with every change of a table."""
        return (self._resources.version, self._templates.version)

    def list_templates(self) -> Sequence[ResourceTemplate]:
        """Return the valid templates. An invalid one is logged instead."""
        self._refresh()
        return self._listed

    def find_template(self, text: str) -> ResourceTemplate | None:
        """Return the template with this text, in any spelling, or None."""
        text = normalize_uri(text)
        for entry in self.list_templates():
            if normalize_uri(entry.uri_template) == text:
                return entry
        return None

    def find_resource(self, uri: str) -> ResourceMatch:
        """Return the resource with this URI, else the first matching template in alphabetical order.

        Opaque templates, those of upstreams, come last. Raises ResourceNotFound, also if a program could read the
        URI as another one.
        """
        self._refresh()
        normal_uri = normalize_uri(uri)
        if normal_uri in self._entries:
            resource, prepared = self._entries[normal_uri]
            return ResourceMatch(prepared, resource.uri, {"uri": resource.uri})
        problem = ""
        for template, entry, prepared in self._matchers:
            variables = template.match(normal_uri)
            if variables is None:
                continue
            reason = find_ambiguity(normal_uri) or _find_unsafe_value(variables)
            if reason is None:
                spelling = template.spell(uri, variables)
                if entry.is_opaque:
                    # The upstream receives the URI that the policies have seen.
                    return ResourceMatch(prepared, spelling, {"uri": spelling})
                return ResourceMatch(prepared, spelling, variables)
            problem = f": {reason}"
        excerpt = uri if len(uri) <= _MAX_SHOWN else f"{uri[:_MAX_SHOWN]}... ({len(uri)} characters)"
        raise ResourceNotFound(f"Resource not found: {excerpt}{problem}")

    def _refresh(self) -> None:
        """Prepare all entries again if a table has changed."""
        version = self.version
        if version == self._version:
            return
        self._entries = {}
        for resource in self._resources:
            # Two resources can have different spellings of one URI. The first in alphabetical order is used.
            self._entries.setdefault(normalize_uri(resource.uri), (resource, _prepare_resource(resource)))
        self._matchers = []
        self._listed = []
        for entry in self._templates:
            try:
                template = _parse_template(entry)
            except ValueError as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._matchers.append(_Matcher(template, entry, _prepare_resource(entry)))
            self._listed.append(entry)
        # False sorts before True, so opaque templates come last.
        self._matchers.sort(key=lambda matcher: matcher.entry.is_opaque)
        self._version = version


def _prepare_resource(entry: ResourceEntry | ResourceTemplate) -> PreparedEntry:
    """Prepare an entry whose results are contents of resources/read."""

    def read_contents(value: Any, call: ToolCall) -> ToolResult:
        # Only calls need this module, so a start does not import it.
        from mcp_bridge._protocol.wire.resource_contents import to_contents

        return to_contents(value, call.name, entry.mime_type)

    return PreparedEntry(entry, read_result=read_contents)


def _parse_template(entry: ResourceTemplate) -> UriTemplate | OpaqueTemplate:
    # A start without templates does not need this module.
    from mcp_bridge._json_schema.uri_templates import OpaqueTemplate, UriTemplate

    text = normalize_uri(entry.uri_template)
    return OpaqueTemplate(text) if entry.is_opaque else UriTemplate(text)


def _find_unsafe_value(variables: Mapping[str, str | list[str]]) -> str | None:
    """Return why the value of a variable would lead out of a folder, or None if no value does.

    The specification requires servers to validate URIs (server/resources, "Security Considerations").
    """
    for name, value in variables.items():
        path = "/".join(value) if isinstance(value, list) else value
        if _ABSOLUTE_PATH.match(path):
            return f"the value of '{name}' is an absolute path. Write a path without a slash or a drive before it"
        if (reason := find_unsafe_step(path)) is not None:
            return f"the value of '{name}': {reason}"
    return None
