"""Hints about what a tool does, by which clients decide what to ask users (MCP server/tools, "ToolAnnotations")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast


class ToolHints(TypedDict, total=False):
    """What a tool does. Hints are not enforced."""

    read_only: bool
    """It changes nothing."""
    destructive: bool
    """It may delete or overwrite, rather than only add."""
    idempotent: bool
    """A second call with the same arguments changes nothing more."""
    open_world: bool
    """It reaches beyond a closed set of things, such as the web."""


_ANNOTATIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def add_hints(annotations: Mapping[str, Any] | None, hints: ToolHints) -> dict[str, Any]:
    """Return MCP's annotations with these hints. Raises TypeError for an unknown hint, and for one given twice."""
    added = dict(annotations or {})
    for name, value in cast("Mapping[str, Any]", hints).items():
        if name not in _ANNOTATIONS:
            raise TypeError(f"tool() has no argument '{name}'")
        if _ANNOTATIONS[name] in added:
            raise TypeError(f"tool(): give either {name}= or '{_ANNOTATIONS[name]}' in annotations=")
        if value is not None:
            added[_ANNOTATIONS[name]] = value
    return added
