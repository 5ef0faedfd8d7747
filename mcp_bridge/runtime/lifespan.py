"""Enters and leaves the async context managers that users write."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.server_info import Lifespan
from mcp_bridge.runtime.third_party import describe_error, is_own_cancellation

logger = logging.getLogger("mcp_bridge.lifespan")

PATIENCE = 10.0
"""Seconds that a lifespan may take to end."""


@asynccontextmanager
async def open_lifespan(lifespan: Lifespan) -> AsyncIterator[Any]:
    """Yield the value of a lifespan. Raises SourceError if it cannot start; an error at its end is logged.

    It ends in full even if the block is cancelled.
    """
    try:
        manager = lifespan()
        value = await manager.__aenter__()
    except BaseException as error:  # users may raise any error
        if is_own_cancellation(error):
            raise
        raise SourceError(f"the lifespan cannot start: {describe_error(error)}") from error
    try:
        yield value
    finally:
        with anyio.move_on_after(PATIENCE, shield=True) as scope:
            try:
                await manager.__aexit__(None, None, None)
            except BaseException as error:
                if is_own_cancellation(error):
                    raise
                logger.error("the lifespan failed at its end", exc_info=error)
        if scope.cancelled_caught:
            logger.error("the lifespan did not end within %g seconds", PATIENCE)
