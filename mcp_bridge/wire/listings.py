"""Resources, templates and prompts as clients see them in lists, for each protocol version."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.wire.content import annotations_of
from mcp_bridge.wire.icons import icons
from mcp_bridge.wire.values import as_text, plain_mapping
from mcp_bridge.wire.versions import ICONS, STRUCTURED, carries


def resource(entry: ResourceEntry, version: str) -> dict[str, Any]:
    """A resource in a resources/list answer."""
    made = {"uri": entry.uri, **_common(entry, entry.name or entry.uri, version)}
    if isinstance(entry.size, int) and not isinstance(entry.size, bool) and entry.size >= 0:
        made["size"] = entry.size
    return made | _served(entry)


def template(entry: ResourceTemplate, version: str) -> dict[str, Any]:
    """A template in a resources/templates/list answer."""
    shown = _common(entry, entry.name or entry.uri_template, version)
    return {"uriTemplate": entry.uri_template, **shown, **_served(entry)}


def prompt(entry: PromptEntry, version: str) -> dict[str, Any]:
    """A prompt in a prompts/list answer."""
    made = _common(entry, entry.name, version)
    if entry.arguments:
        made["arguments"] = [_argument(argument, version) for argument in entry.arguments]
    return made


def _argument(argument: PromptArgument, version: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": argument.name}
    if argument.title and carries(version, STRUCTURED):
        made["title"] = as_text(argument.title)
    if argument.description:
        made["description"] = as_text(argument.description)
    return {**made, "required": bool(argument.required)}


def _common(entry: ResourceEntry | ResourceTemplate | PromptEntry, name: str, version: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": as_text(name)}
    if entry.title and carries(version, STRUCTURED):
        made["title"] = as_text(entry.title)
    if entry.description:
        made["description"] = as_text(entry.description)
    if carries(version, ICONS) and (shown := icons(entry.icons)):
        made["icons"] = shown
    if carries(version, STRUCTURED) and (meta := plain_mapping(entry.meta)):
        made["_meta"] = meta
    return made


def _served(entry: ResourceEntry | ResourceTemplate) -> dict[str, Any]:
    made: dict[str, Any] = {"mimeType": as_text(entry.mime_type)} if entry.mime_type else {}
    if shown := annotations_of(entry.annotations):
        made["annotations"] = shown
    return made
