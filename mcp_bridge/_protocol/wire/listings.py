"""Renders resources, templates and prompts for lists, in the form of each protocol version."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._protocol.wire.annotations import render_icons, select_annotations
from mcp_bridge._protocol.wire.protocol_versions import ICONS, STRUCTURED, has_feature
from mcp_bridge._protocol.wire.values import as_text, to_plain_mapping


def render_resource(entry: ResourceEntry, version: str) -> dict[str, Any]:
    rendered = {"uri": entry.uri, **_render_common_fields(entry, entry.name or entry.uri, version)}
    if isinstance(entry.size, int) and not isinstance(entry.size, bool) and entry.size >= 0:
        rendered["size"] = entry.size
    return rendered | _render_resource_fields(entry)


def render_template(entry: ResourceTemplate, version: str) -> dict[str, Any]:
    common = _render_common_fields(entry, entry.name or entry.uri_template, version)
    return {"uriTemplate": entry.uri_template, **common, **_render_resource_fields(entry)}


def render_prompt(entry: PromptEntry, version: str) -> dict[str, Any]:
    rendered = _render_common_fields(entry, entry.name, version)
    if entry.arguments:
        rendered["arguments"] = [_render_argument(argument, version) for argument in entry.arguments]
    return rendered


def _render_argument(argument: PromptArgument, version: str) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": argument.name}
    if argument.title and has_feature(version, STRUCTURED):
        rendered["title"] = as_text(argument.title)
    if argument.description:
        rendered["description"] = as_text(argument.description)
    return {**rendered, "required": bool(argument.required)}


def _render_common_fields(
    entry: ResourceEntry | ResourceTemplate | PromptEntry, name: str, version: str
) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": as_text(name)}
    if entry.title and has_feature(version, STRUCTURED):
        rendered["title"] = as_text(entry.title)
    if entry.description:
        rendered["description"] = as_text(entry.description)
    if has_feature(version, ICONS) and (own := render_icons(entry.icons)):
        rendered["icons"] = own
    if has_feature(version, STRUCTURED) and (meta := to_plain_mapping(entry.meta)):
        rendered["_meta"] = meta
    return rendered


def _render_resource_fields(entry: ResourceEntry | ResourceTemplate) -> dict[str, Any]:
    rendered: dict[str, Any] = {"mimeType": as_text(entry.mime_type)} if entry.mime_type else {}
    if own := select_annotations(entry.annotations):
        rendered["annotations"] = own
    return rendered
