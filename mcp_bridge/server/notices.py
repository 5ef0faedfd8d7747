"""Change notices: whoever listens, in either era, is told when the tools change, from whichever thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from mcp_bridge.threads import Soon, from_any_thread

logger = logging.getLogger("mcp_bridge.server")

PATIENCE = 5.0
"""Seconds that one handshake client has to take a notice; the others do not wait for it."""


class Notices:
    """Handshake sessions by their initialized notification, stateless ones by subscriptions/listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[int, ServerSession] = {}
        self._changed = anyio.Event()
        self._soon: Soon | None = None
        self._streams = ListenHandler(self._bus)
        self._ended = False

    async def initialized(self, ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """A handshake client is ready: tell it of changes until its connection ends."""
        # The SDK has no public sign of a connection's end; its exit stack is the one place that always runs.
        connection = ctx.session._connection
        key = id(connection)
        if key not in self._sessions:
            self._sessions[key] = ctx.session
            connection.exit_stack.callback(self._sessions.pop, key, None)

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one subscriptions/listen stream; one that opens after `end` gets its final result too."""
        if self._ended and self._soon is not None:
            self._soon(self._streams.close)  # it is open by then
        return await self._streams(ctx, params)

    def end(self) -> None:
        """End every subscriptions/listen stream with its final result."""
        self._ended = True
        self._streams.close()

    def changed(self) -> None:
        """The tools changed. May be called from any thread, also before `run`."""
        soon = self._soon
        if soon is not None:
            with suppress(RuntimeError):  # the loop has just ended
                soon(self._wake)

    def _wake(self) -> None:
        self._changed.set()

    async def run(self, watch: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Pass changes on until cancelled; changes that come in a burst are told once."""
        self._soon = from_any_thread()
        self._ended = False
        with ExitStack() as stack:
            stack.callback(watch(self.changed))
            stack.callback(setattr, self, "_soon", None)
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._changed.wait()
                    self._changed = anyio.Event()
                    for session in list(self._sessions.values()):
                        tasks.start_soon(self._tell, session)
                    await self._bus.publish(ToolsListChanged())

    async def _tell(self, session: ServerSession) -> None:
        try:
            with anyio.move_on_after(PATIENCE):
                await session.send_tool_list_changed()
        except Exception as error:  # a client that has just left
            logger.debug("a change notice did not arrive: %r", error)
