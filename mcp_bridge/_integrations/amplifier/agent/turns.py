"""The order of executions in one conversation."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.running_call import RunningCall

_WAITING = (
    "The conversation waits for the user's answer to a question of an earlier call. Retry when that call has ended, or "
    "omit 'session' to begin a new conversation."
)


class TurnQueue:
    """Runs the executions of one conversation one after another.

    The queue is a `Hold` of the running execution, so it is paused while that execution waits for its client. Other
    executions fail then instead of waiting: the client may never respond, or may itself be the next caller.
    """

    deadline = math.inf

    def __init__(self) -> None:
        self._is_taken = self._is_paused = False
        self._changed = anyio.Event()

    @asynccontextmanager
    async def take_turn(self, ctx: RunningCall) -> AsyncIterator[None]:
        """Wait for the turn of this call, and keep it for the block. Raises ToolError if the wait could be endless."""
        while self._is_taken:
            if self._is_paused:
                raise ToolError(_WAITING, code="session_busy")
            await self._changed.wait()
        self._is_taken = True
        ctx.holds.append(self)
        try:
            yield
        finally:
            ctx.holds.remove(self)
            self._is_taken = self._is_paused = False
            self._notify()

    def pause(self) -> None:
        self._is_paused = True
        self._notify()

    def resume(self) -> None:
        self._is_paused = False

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
