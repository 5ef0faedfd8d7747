"""What modules contribute to a channel, each by its name, with what went wrong beside it (CONTRIBUTION_CHANNELS)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio

from mcp_bridge.runtime.third_party import passes, settled
from mcp_bridge.wire.values import plain

logger = logging.getLogger("mcp_bridge.amplifier")

PATIENCE = 5.0
"""Seconds that one contributor may take."""


async def collected(coordinator: Any, channel: str) -> list[dict[str, Any]]:
    """Who contributes to a channel, in order: `name` and `value`, or the `error` that it failed with; None is nothing.

    Values are JSON. What an error says is for the log alone.
    """
    found = []
    for name, callback in contributors(coordinator).get(channel, ()):
        given: dict[str, Any] = {"name": str(name), "error": "TimeoutError"}
        with anyio.move_on_after(PATIENCE) as scope:
            given = {"name": str(name), **await _contribution(callback, channel, name)}
        if scope.cancelled_caught:
            logger.error("the contribution of %r to %r is left out: it takes too long", name, channel)
        if given.get("value", given) is not None:
            found.append(given)
    return found


def contributors(coordinator: Any) -> dict[str, list[tuple[str, Callable[[], Any]]]]:
    """Who contributes, by channel."""
    return {channel: list(coordinator.contributors(channel)) for channel in list(coordinator.channels)}


async def _contribution(callback: Callable[[], Any], channel: str, name: str) -> dict[str, Any]:
    try:
        return {"value": plain(await settled(callback()))}
    except BaseException as error:
        if passes(error):
            raise
        logger.exception("the contribution of %r to %r is left out", name, channel)
        return {"error": type(error).__name__}
