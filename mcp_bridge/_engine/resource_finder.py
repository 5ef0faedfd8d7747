"""Finds the resource of a URI: one with exactly this URI, or one of a template."""

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

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
"""On Windows, C:x belongs to drive C wherever it is joined to."""
_SHOWN = 256
"""The maximum number of characters of a URI in an error."""


class ResourceMatch(NamedTuple):
    """The entry of a URI. `uri` is the spelling of the URI for policies."""

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
    """The published resources and templates, ready to be read; prepared again after each change of the catalogs."""

    def __init__(self, resources: EntryTable[ResourceEntry], templates: EntryTable[ResourceTemplate]) -> None:
        self._resources = resources
        self._templates = templates
        self._version = (-1, -1)
        self._entries: dict[str, tuple[ResourceEntry, PreparedEntry]] = {}
        self._matchers: list[_Matcher] = []
        self._listed: list[ResourceTemplate] = []

    @property
    def version(self) -> tuple[int, int]:
        """Changes with every change of the catalogs."""
        return (self._resources.version, self._templates.version)

    def list_templates(self) -> Sequence[ResourceTemplate]:
        """Return the valid templates. The others are logged."""
        self._refresh()
        return self._listed

    def find_template(self, text: str) -> ResourceTemplate | None:
        """Return the template of this text, in any spelling, or None."""
        text = normalize_uri(text)
        return next((entry for entry in self.list_templates() if normalize_uri(entry.uri_template) == text), None)

    def find_resource(self, uri: str) -> ResourceMatch:
        """Return the resource with this URI, else the first matching template in alphabetical order.

        Opaque templates come last. Raises ResourceNotFound, also for a URI that a program could read as another one.
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
                # Another server gets what policies see.
                return ResourceMatch(prepared, spelling, {"uri": spelling} if entry.is_opaque else variables)
            problem = f": {reason}"
        excerpt = uri if len(uri) <= _SHOWN else f"{uri[:_SHOWN]}... ({len(uri)} characters)"
        raise ResourceNotFound(f"Resource not found: {excerpt}{problem}")

    def _refresh(self) -> None:
        version = self.version
        if version == self._version:
            return
        self._entries = {}
        for resource in self._resources:
            # With two spellings of a URI, the first one in alphabetical order is read.
            self._entries.setdefault(normalize_uri(resource.uri), (resource, _prepare_resource(resource)))
        self._matchers, self._listed = [], []
        for entry in self._templates:
            try:
                template = _parse_template(entry)
            except ValueError as error:
                logger.error("resource template %r is not served: %s", entry.uri_template, error)
                continue
            self._matchers.append(_Matcher(template, entry, _prepare_resource(entry)))
            self._listed.append(entry)
        self._matchers.sort(key=lambda matcher: matcher.entry.is_opaque)
        self._version = version


def _prepare_resource(entry: ResourceEntry | ResourceTemplate) -> PreparedEntry:
    def read_contents(value: Any, call: ToolCall) -> ToolResult:
        # A start does not need it.
        from mcp_bridge._protocol.wire.resource_contents import to_contents

        return to_contents(value, call.name, entry.mime_type)

    return PreparedEntry(entry, read_result=read_contents)


def _parse_template(entry: ResourceTemplate) -> UriTemplate | OpaqueTemplate:
    # A start without templates does not need this module.
    from mcp_bridge._json_schema.uri_templates import OpaqueTemplate, UriTemplate

    text = normalize_uri(entry.uri_template)
    return OpaqueTemplate(text) if entry.is_opaque else UriTemplate(text)


def _find_unsafe_value(variables: Mapping[str, str | list[str]]) -> str | None:
    """Return why the value of a variable would leave its folder as a part of a path (server/resources, "Security")."""
    for name, value in variables.items():
        path = "/".join(value) if isinstance(value, list) else value
        if _ABSOLUTE.match(path):
            return f"the value of '{name}' is an absolute path. Write a path without a slash or a drive before it"
        if (reason := find_unsafe_step(path)) is not None:
            return f"the value of '{name}': {reason}"
    return None
