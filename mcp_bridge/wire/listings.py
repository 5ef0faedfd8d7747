"""Renders resources, templates and prompts for lists, in the form that each protocol version supports."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.wire.content import annotations_of
from mcp_bridge.wire.icons import icons
from mcp_bridge.wire.values import as_text, plain_mapping
from mcp_bridge.wire.versions import ICONS, STRUCTURED, carries


def resource(entry: ResourceEntry, version: str) -> dict[str, Any]:
    """Render a resource for resources/list."""
    rendered = {"uri": entry.uri, **_common(entry, entry.name or entry.uri, version)}
    if isinstance(entry.size, int) and not isinstance(entry.size, bool) and entry.size >= 0:
        rendered["size"] = entry.size
    return rendered | _served(entry)


def template(entry: ResourceTemplate, version: str) -> dict[str, Any]:
    """Render a template for resources/templates/list."""
    common = _common(entry, entry.name or entry.uri_template, version)
    return {"uriTemplate": entry.uri_template, **common, **_served(entry)}


def prompt(entry: PromptEntry, version: str) -> dict[str, Any]:
    """Render a prompt for prompts/list."""
    rendered = _common(entry, entry.name, version)
    if entry.arguments:
        rendered["arguments"] = [_argument(argument, version) for argument in entry.arguments]
    return rendered


def _argument(argument: PromptArgument, version: str) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": argument.name}
    if argument.title and carries(version, STRUCTURED):
        rendered["title"] = as_text(argument.title)
    if argument.description:
        rendered["description"] = as_text(argument.description)
    return {**rendered, "required": bool(argument.required)}


def _common(entry: ResourceEntry | ResourceTemplate | PromptEntry, name: str, version: str) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": as_text(name)}
    if entry.title and carries(version, STRUCTURED):
        rendered["title"] = as_text(entry.title)
    if entry.description:
        rendered["description"] = as_text(entry.description)
    if carries(version, ICONS) and (own := icons(entry.icons)):
        rendered["icons"] = own
    if carries(version, STRUCTURED) and (meta := plain_mapping(entry.meta)):
        rendered["_meta"] = meta
    return rendered


def _served(entry: ResourceEntry | ResourceTemplate) -> dict[str, Any]:
    rendered: dict[str, Any] = {"mimeType": as_text(entry.mime_type)} if entry.mime_type else {}
    if own := annotations_of(entry.annotations):
        rendered["annotations"] = own
    return rendered
