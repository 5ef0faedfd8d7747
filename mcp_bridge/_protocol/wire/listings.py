"""Renders resources, templates and prompts for lists, in the form of each protocol version."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._protocol.wire.annotations import render_icons, select_annotations
from mcp_bridge._protocol.wire.protocol_versions import ICONS, STRUCTURED, has_feature
from mcp_bridge._protocol.wire.values import to_plain_mapping, to_plain_text


def render_resource(entry: ResourceEntry, version: str) -> dict[str, Any]:
    resource = {"uri": entry.uri, **_render_common_fields(entry, entry.name or entry.uri, version)}
    if isinstance(entry.size, int) and not isinstance(entry.size, bool) and entry.size >= 0:
        resource["size"] = entry.size
    return resource | _render_resource_fields(entry)


def render_template(entry: ResourceTemplate, version: str) -> dict[str, Any]:
    common = _render_common_fields(entry, entry.name or entry.uri_template, version)
    return {"uriTemplate": entry.uri_template, **common, **_render_resource_fields(entry)}


def render_prompt(entry: PromptEntry, version: str) -> dict[str, Any]:
    prompt = _render_common_fields(entry, entry.name, version)
    arguments = []
    for argument in entry.arguments:
        fields: dict[str, Any] = {"name": argument.name, "required": bool(argument.required)}
        if argument.title and has_feature(version, STRUCTURED):
            fields["title"] = to_plain_text(argument.title)
        if argument.description:
            fields["description"] = to_plain_text(argument.description)
        arguments.append(fields)
    if arguments:
        prompt["arguments"] = arguments
    return prompt


def _render_common_fields(
    entry: ResourceEntry | ResourceTemplate | PromptEntry, name: str, version: str
) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": to_plain_text(name)}
    if entry.title and has_feature(version, STRUCTURED):
        fields["title"] = to_plain_text(entry.title)
    if entry.description:
        fields["description"] = to_plain_text(entry.description)
    if has_feature(version, ICONS) and (icons := render_icons(entry.icons)):
        fields["icons"] = icons
    if has_feature(version, STRUCTURED) and (meta := to_plain_mapping(entry.meta)):
        fields["_meta"] = meta
    return fields


def _render_resource_fields(entry: ResourceEntry | ResourceTemplate) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if entry.mime_type:
        fields["mimeType"] = to_plain_text(entry.mime_type)
    if annotations := select_annotations(entry.annotations):
        fields["annotations"] = annotations
    return fields
