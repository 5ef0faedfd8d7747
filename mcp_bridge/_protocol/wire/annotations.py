"""Renders the fields of annotations and icons in MCP."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bridge._protocol.wire.values import sanitize_text, to_plain_mapping

logger = logging.getLogger("mcp_bridge.wire")


def select_annotations(annotations: Any) -> dict[str, Any]:
    """Return the annotations of content or a resource in MCP, if they have the right types."""
    if annotations is None:
        return {}
    given = to_plain_mapping(annotations)
    audience, priority, modified = given.get("audience"), given.get("priority"), given.get("lastModified")
    kept: dict[str, Any] = {}
    if isinstance(audience, list) and all(role in ("user", "assistant") for role in audience):
        kept["audience"] = audience
    if isinstance(priority, int | float) and 0 <= priority <= 1:
        kept["priority"] = priority
    if isinstance(modified, str):
        kept["lastModified"] = modified
    return kept


def render_icons(given: Iterable[Any]) -> list[dict[str, Any]]:
    """Render the valid icons. Invalid ones are logged and left out."""
    return [icon for icon in map(_render_icon, given) if icon]


def _render_icon(icon: Any) -> dict[str, Any] | None:
    source = icon.get("src") if isinstance(icon, Mapping) else None
    if not isinstance(source, str) or not source.startswith(("https://", "data:")):
        logger.warning("an icon is left out: src must be an https: or data: URL")
        return None
    kept: dict[str, Any] = {"src": sanitize_text(source)}
    if kind := sanitize_text(icon.get("mimeType")):
        kept["mimeType"] = kind
    if (theme := icon.get("theme")) in ("light", "dark"):
        kept["theme"] = theme
    sizes = icon.get("sizes")
    if isinstance(sizes, list | tuple) and all(isinstance(size, str) for size in sizes):
        kept["sizes"] = [sanitize_text(size) for size in sizes]
    return kept
