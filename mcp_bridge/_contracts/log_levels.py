"""The levels of log messages to clients."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The severity of a log message (RFC 5424, used by MCP in server/utilities/logging)."""
LEVELS: tuple[str, ...] = get_args(Level)
"""All levels, from the least to the most severe."""


def check_level(level: str) -> int:
    """Return the index of a level in `LEVELS`. Raises ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}. Use one of {', '.join(LEVELS)}")
    return LEVELS.index(level)
