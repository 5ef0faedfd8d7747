"""Finds the known name that is similar to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MAX_LENGTH = 100
"""The number of compared characters of a misspelt name. Clients can send names of any length."""


def find_similar_name(name: Any, known: Iterable[Any], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar of the known names, or None."""
    from difflib import get_close_matches

    matches = get_close_matches(str(name)[:_MAX_LENGTH], list(map(str, known)), n=1, cutoff=cutoff)
    return matches[0] if matches else None
