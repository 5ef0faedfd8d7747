"""Renders annotations and icons, without invalid fields, for which a client may reject the whole message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bridge._protocol.wire.values import sanitize_text, to_plain_mapping

logger = logging.getLogger("mcp_bridge.wire")


def select_annotations(annotations: Any) -> dict[str, Any]:
    """Return MCP's annotations of content or a resource, if their values are valid."""
    if annotations is None:
        return {}
    values = to_plain_mapping(annotations)
    audience = values.get("audience")
    priority = values.get("priority")
    last_modified = values.get("lastModified")
    valid_values: dict[str, Any] = {}
    if isinstance(audience, list) and all(role in ("user", "assistant") for role in audience):
        valid_values["audience"] = audience
    if isinstance(priority, int | float) and 0 <= priority <= 1:
        valid_values["priority"] = priority
    if isinstance(last_modified, str):
        valid_values["lastModified"] = last_modified
    return valid_values


def render_icons(icons: Iterable[Any]) -> list[dict[str, Any]]:
    """Render the valid icons. Invalid ones are logged and left out."""
    rendered_icons = []
    for icon in icons:
        source = icon.get("src") if isinstance(icon, Mapping) else None
        if not isinstance(source, str) or not source.startswith(("https://", "data:")):
            logger.warning("an icon is left out: src must be an https: or data: URL")
            continue
        rendered_icon: dict[str, Any] = {"src": sanitize_text(source)}
        if mime_type := sanitize_text(icon.get("mimeType")):
            rendered_icon["mimeType"] = mime_type
        if icon.get("theme") in ("light", "dark"):
            rendered_icon["theme"] = icon["theme"]
        sizes = icon.get("sizes")
        if isinstance(sizes, list | tuple) and all(isinstance(size, str) for size in sizes):
            rendered_icon["sizes"] = [sanitize_text(size) for size in sizes]
        rendered_icons.append(rendered_icon)
    return rendered_icons
