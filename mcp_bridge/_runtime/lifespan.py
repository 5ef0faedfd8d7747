"""Enters and leaves lifespans, the async context managers of users around the life of a server."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.server_info import Lifespan
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation

logger = logging.getLogger("mcp_bridge.lifespan")

SHUTDOWN_TIMEOUT = 10.0
"""The timeout in seconds for the shutdown of a lifespan."""


@asynccontextmanager
async def open_lifespan(lifespan: Lifespan) -> AsyncIterator[Any]:
    """Yield the value of a lifespan. Raises SourceError if it cannot start; an error at its shutdown is logged.

    The lifespan runs in a separate task. So it can enter task groups, and its shutdown runs to its end even if the
    block is cancelled.
    """
    closing = anyio.Event()
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield await tasks.start(_keep_open, lifespan, closing)
        except BaseException as error:
            # The task group would wrap the error in a group, so it is raised outside.
            failure = error
        closing.set()
    if failure is not None:
        raise failure


async def _keep_open(lifespan: Lifespan, closing: anyio.Event, *, task_status: TaskStatus[Any]) -> None:
    """Enter the lifespan, report its value by `task_status`, and leave the lifespan when `closing` is set."""
    with anyio.CancelScope() as scope:
        try:
            manager: object = lifespan()
            if not isinstance(manager, AbstractAsyncContextManager):
                hint = "Decorate it with @contextlib.asynccontextmanager"
                raise TypeError(f"it does not return an async context manager. {hint}")
            value = await manager.__aenter__()
        except BaseException as error:
            # Users may raise any error.
            if is_own_cancellation(error):
                raise
            place = _find_place(lifespan, error)
            raise SourceError(f"{place}the lifespan cannot start: {describe_error(error)}") from error
        # From now on, only `closing` ends the lifespan.
        scope.shield = True
        task_status.started(value)
        failure: BaseException | None = None
        try:
            await closing.wait()
        except BaseException as error:
            # If the lifespan has a task group and one of its tasks fails, the group cancels this wait.
            failure = error
        scope.deadline = anyio.current_time() + SHUTDOWN_TIMEOUT
        if failure is None:
            error_type, message = None, "the lifespan failed at shutdown"
        else:
            error_type, message = type(failure), "the lifespan failed"
        try:
            await manager.__aexit__(error_type, failure, None)
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            logger.error(message, exc_info=error)
    if scope.cancelled_caught:
        logger.error("the lifespan did not shut down within %g seconds", SHUTDOWN_TIMEOUT)


def _find_place(lifespan: Lifespan, error: BaseException) -> str:
    """Return the line of the error in the lifespan, as a prefix for messages."""
    code = getattr(inspect.unwrap(lifespan), "__code__", None)
    if code is None:
        return ""
    number = code.co_firstlineno
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is code:
            number = line
    return f"{code.co_filename}:{number}: "
