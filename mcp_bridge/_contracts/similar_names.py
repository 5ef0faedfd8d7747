"""Finds the name that a misspelt one may mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MAX_LENGTH = 100
"""The characters of a misspelt name that are compared: its length is up to the client."""


def find_similar_name(name: Any, known: Iterable[Any], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is the most similar to a misspelt one, or None."""
    from difflib import get_close_matches

    matches = get_close_matches(str(name)[:_MAX_LENGTH], list(map(str, known)), n=1, cutoff=cutoff)
    return matches[0] if matches else None
