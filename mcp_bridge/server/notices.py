"""Change notices: whoever listens, in either era, is told what has changed, from whichever thread."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.runtime.thread_pool import Soon, from_any_thread
from mcp_bridge.server.context import Request
from mcp_bridge.wire.outcomes import INVALID_PARAMS

logger = logging.getLogger("mcp_bridge.server")

PATIENCE = 5.0
"""Seconds that one handshake client has to take a notice; the others do not wait for it."""
SUBSCRIPTIONS = 1024
"""The most resources that one handshake client may subscribe to."""
SUBSCRIBED = 256 * 1024
"""The most characters that their URIs may have in all."""
_EVENTS: Final[dict[str, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}


@dataclass(slots=True)
class Listener:
    """A handshake connection, and what it has subscribed to."""

    session: ServerSession
    ready: bool = False
    uris: set[str] = field(default_factory=set)


class Notices:
    """Handshake connections by their own requests, stateless clients by subscriptions/listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listeners: dict[int, Listener] = {}
        self._lists: set[str] = set()
        self._uris: set[str] = set()
        self._news = anyio.Event()
        self._soon: Soon | None = None
        self._streams = ListenHandler(self._bus)
        self._ended = False

    async def initialized(self, request: Request, _: types.NotificationParams) -> None:
        """A handshake client is ready: tell it of changes until its connection ends."""
        self._listener(request).ready = True

    def subscribe(self, request: Request, uri: str) -> None:
        """Tell this connection of updates. Raises MCPError when it has too many subscriptions."""
        uris = self._listener(request).uris
        full = len(uris) >= SUBSCRIPTIONS or sum(map(len, uris)) + len(uri) > SUBSCRIBED
        if uri not in uris and full:
            raise MCPError(INVALID_PARAMS, "Too many resources are subscribed to on this connection", {"uri": uri})
        uris.add(uri)

    def unsubscribe(self, request: Request, uri: str) -> None:
        """Tell this connection of updates no more."""
        self._listener(request).uris.discard(uri)

    async def listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one subscriptions/listen stream; one that opens after `end` gets its final result too."""
        if self._ended and self._soon is not None:
            self._soon(self._streams.close)  # it is open by then
        return await self._streams(request, params)

    def end(self) -> None:
        """End every subscriptions/listen stream with its final result."""
        self._ended = True
        self._streams.close()

    async def run(self, registry: ToolRegistry, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Pass changes on until cancelled; changes that come in a burst are told once."""
        self._soon = from_any_thread()
        self._ended = False
        with ExitStack() as stack:
            for kind, watch in (
                ("tools", registry.watch),
                ("resources", registry.resources.watch),
                ("resources", registry.templates.watch),
                ("prompts", registry.prompts.watch),
            ):
                stack.callback(watch(partial(self._changed, kind)))
            stack.callback(registry.watch_updates(self._updated))
            stack.callback(setattr, self, "_soon", None)
            task_status.started()
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._news.wait()
                    self._news = anyio.Event()
                    await self._tell_all(tasks)

    async def _tell_all(self, tasks: anyio.abc.TaskGroup) -> None:
        lists, self._lists = self._lists, set()
        uris, self._uris = self._uris, set()
        for listener in list(self._listeners.values()):
            changed, updated = sorted(lists) if listener.ready else [], uris & listener.uris
            if changed or updated:
                tasks.start_soon(self._tell, listener, changed, updated)
        for kind in sorted(lists):
            await self._bus.publish(_EVENTS[kind])
        for uri in sorted(uris):
            await self._bus.publish(ResourceUpdated(uri))

    async def _tell(self, listener: Listener, lists: Collection[str], uris: Collection[str]) -> None:
        session = listener.session
        tell = {
            "tools": session.send_tool_list_changed,
            "resources": session.send_resource_list_changed,
            "prompts": session.send_prompt_list_changed,
        }
        try:
            with anyio.move_on_after(PATIENCE):
                for kind in lists:
                    await tell[kind]()
                for uri in sorted(uris):
                    await session.send_resource_updated(uri)
        except Exception as error:  # a client that has just left
            logger.debug("a change notice did not arrive: %r", error)

    def _listener(self, request: Request) -> Listener:
        # The SDK has no public sign of a connection's end; its exit stack is the one place that always runs.
        connection = request.session._connection
        key = id(connection)
        if key not in self._listeners:
            self._listeners[key] = Listener(request.session)
            connection.exit_stack.callback(self._listeners.pop, key, None)
        return self._listeners[key]

    def _changed(self, kind: str) -> None:
        """A list changed. May be called from any thread."""
        self._hear(partial(self._lists_add, kind))

    def _updated(self, uri: str) -> None:
        """A resource changed. May be called from any thread."""
        self._hear(partial(self._uris_add, uri))

    def _lists_add(self, kind: str) -> None:
        self._lists.add(kind)
        self._news.set()

    def _uris_add(self, uri: str) -> None:
        self._uris.add(uri)
        self._news.set()

    def _hear(self, news: Any) -> None:
        soon = self._soon
        if soon is not None:
            with suppress(RuntimeError):  # the loop has just ended
                soon(news)
