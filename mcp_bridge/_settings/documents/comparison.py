"""Comparison of two versions of a document: what the second has lost of the first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge._settings.documents.edit import Format
from mcp_bridge._settings.documents.editor import parse_source
from mcp_bridge._settings.documents.positions import KeyPath, format_key_path
from mcp_bridge._settings.documents.syntax import SourceText


def find_lost_content(format: Format, before: str, after: str, *, entry: Sequence[str]) -> str | None:
    """Describe the first value or comment of `before` that `after` lacks; None if it lacks nothing.

    Additions, and changes at the key path `entry`, are ignored. Raises ConfigError for invalid texts.
    """
    old, new = parse_source(format, before), parse_source(format, after)
    place = _find_lost_value(old.data, new.data, (), tuple(entry))
    if place is not None:
        return f"removed or changed '{format_key_path(place)}'"
    return "removed a comment" if Counter(_list_comments(format, old)) - Counter(_list_comments(format, new)) else None


def _find_lost_value(old: Any, new: Any, place: KeyPath, entry: KeyPath) -> KeyPath | None:
    # An empty file has nothing to lose.
    if place == entry or (old is None and not place):
        return None
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key, value in old.items():
            inner = (*place, str(key))
            if inner != entry and key not in new:
                return inner
            if (path := _find_lost_value(value, new.get(key), inner, entry)) is not None:
                return path
        return None
    return None if json.dumps(old, default=str) == json.dumps(new, default=str) else place


def _list_comments(format: Format, source: SourceText) -> Sequence[str]:
    if format == "toml":
        from mcp_bridge._settings.documents.toml_syntax import list_comments

        return list_comments(source.text)
    return [source.text[start:end] for start, end in source.comments]
