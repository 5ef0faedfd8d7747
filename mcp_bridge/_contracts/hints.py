"""Hints about what a tool does, which help clients decide when to ask users (MCP server/tools, "ToolAnnotations")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast


class ToolHints(TypedDict, total=False):
    """What a tool does. Hints are not enforced."""

    read_only: bool | None
    """It changes nothing."""
    destructive: bool | None
    """It may delete or overwrite, rather than only add."""
    idempotent: bool | None
    """A second call with the same arguments changes nothing more."""
    open_world: bool | None
    """It interacts with an open set of things, such as the web."""


_ANNOTATIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def add_hints(annotations: Mapping[str, Any] | None, hints: ToolHints) -> dict[str, Any]:
    """Return MCP's annotations with these hints, except those that are None. Raises TypeError for one given twice."""
    added = dict(annotations or {})
    for name, value in cast("Mapping[str, Any]", hints).items():
        if value is None:
            continue
        if _ANNOTATIONS[name] in added:
            raise TypeError(f"tool(): give either {name}= or '{_ANNOTATIONS[name]}' in annotations=")
        added[_ANNOTATIONS[name]] = value
    return added
