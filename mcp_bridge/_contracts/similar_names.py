"""Finds the most similar known name for a misspelt one, for hints in errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MAX_LENGTH = 100
"""The maximum number of compared characters of a misspelt name, because clients can send names of any length."""


def find_similar_name(name: Any, known: Iterable[Any], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar of the known names, or None if none has at least the similarity `cutoff` (0 to 1)."""
    from difflib import get_close_matches

    known_names = [str(known_name) for known_name in known]
    matches = get_close_matches(str(name)[:_MAX_LENGTH], known_names, n=1, cutoff=cutoff)
    return matches[0] if matches else None
