"""The limits of single tools: those in `limits.tools`, and the time limits that sources and chains declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mcp_bridge._engine.pipeline import ToolLimits

if TYPE_CHECKING:
    from mcp_bridge._app.bridge import AttachedSource
    from mcp_bridge._settings import Settings


def collect_tool_limits(settings: Settings, sources: Iterable[AttachedSource]) -> Mapping[str, ToolLimits]:
    """Return the limits of tools by patterns of their names. The first pattern that matches applies."""
    given = {
        name: ToolLimits(timeout=limit.timeout, concurrency=limit.concurrency)
        for name, limit in settings.limits.tools.items()
    }
    timeouts = {
        attached.selection.choose_name(tool): timeout
        for attached in sources
        for tool, timeout in attached.source.timeouts.items()
    }
    return {**_limit_time(timeouts, given), **given}


def _limit_time(timeouts: Mapping[str, float], given: Mapping[str, ToolLimits]) -> dict[str, ToolLimits]:
    """Return the limits of tools with a time limit of their own, by name. The settings take precedence."""
    if not timeouts:
        return {}
    from glob import escape  # few sources have such tools

    limits = {}
    for name, timeout in timeouts.items():
        own = next((limit for pattern, limit in given.items() if fnmatchcase(name, pattern)), ToolLimits())
        limits[escape(name)] = own if own.timeout is not None else own._replace(timeout=timeout)
    return limits
