"""How severe log messages are."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How severe a log message is (RFC 5424, as MCP server/utilities/logging has it)."""
LEVELS: tuple[str, ...] = get_args(Level)
"""From the least to the most severe."""


def check_level(level: str) -> int:
    """The place of a level among `LEVELS`. Raises ValueError for what is none."""
    if level not in LEVELS:
        raise ValueError(f"a log level is one of {', '.join(LEVELS)}, found {level!r}")
    return LEVELS.index(level)
