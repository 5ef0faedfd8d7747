"""Notifies clients of either era of changed lists and resources, whichever thread a change comes from."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

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

from mcp_bridge.contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.runtime.thread_pool import CallSoon, make_call_soon
from mcp_bridge.server.context import Request

logger = logging.getLogger("mcp_bridge.server")

SEND_TIMEOUT = 5.0
"""Seconds that one handshake client may take to accept a notification; the others do not wait for it."""
SUBSCRIPTIONS = 1024
"""The most resources that one handshake client may subscribe to."""
SUBSCRIBED = 256 * 1024
"""The most characters that their URIs may have in total."""


@dataclass(slots=True)
class HandshakeSubscriber:
    """A handshake connection and its subscriptions."""

    session: ServerSession
    ready: bool = False
    uris: set[str] = field(default_factory=set)

    def wants(self, event: ServerEvent) -> bool:
        """Whether this connection is notified of the event."""
        return event.uri in self.uris if isinstance(event, ResourceUpdated) else self.ready


class ChangeNotifier:
    """Notifies handshake connections directly, and stateless clients through subscriptions/listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._subscribers: dict[int, HandshakeSubscriber] = {}
        self._changed: set[ServerEvent] = set()
        self._wake = anyio.Event()
        self._soon: CallSoon | None = None
        self._streams = ListenHandler(self._bus)
        self._is_closed = False

    async def handle_initialized(self, request: Request, _: types.NotificationParams) -> None:
        """Notify this handshake client of changed lists until its connection ends."""
        self._get_subscriber(request).ready = True

    def subscribe(self, request: Request, uri: str) -> None:
        """Notify this connection of updates. Raises MCPError when it has too many subscriptions."""
        uris = self._get_subscriber(request).uris
        is_full = len(uris) >= SUBSCRIPTIONS or sum(map(len, uris)) + len(uri) > SUBSCRIBED
        if uri not in uris and is_full:
            raise MCPError(INVALID_PARAMS, "This connection has too many subscriptions", {"uri": uri})
        uris.add(uri)

    def unsubscribe(self, request: Request, uri: str) -> None:
        self._get_subscriber(request).uris.discard(uri)

    async def listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one subscriptions/listen stream; one that opens after `close_streams` gets its final result too."""
        if self._is_closed and self._soon is not None:
            self._soon(self._streams.close)  # the stream is open by then
        return await self._streams(request, params)

    def close_streams(self) -> None:
        """End every subscriptions/listen stream with its final result."""
        self._is_closed = True
        self._streams.close()

    async def run(self, registry: ToolRegistry, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send notifications until cancelled. Changes in quick succession are sent as one."""
        self._soon = make_call_soon()
        self._is_closed = False
        with ExitStack() as stack:
            for event, watch in (
                (ToolsListChanged(), registry.watch),
                (ResourcesListChanged(), registry.resources.watch),
                (ResourcesListChanged(), registry.templates.watch),
                (PromptsListChanged(), registry.prompts.watch),
            ):
                stack.callback(watch(partial(self._record_soon, event)))
            stack.callback(registry.watch_updates(lambda uri: self._record_soon(ResourceUpdated(uri))))
            stack.callback(setattr, self, "_soon", None)
            task_status.started()
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._wake.wait()
                    self._wake = anyio.Event()
                    await self._notify_all(tasks)

    async def _notify_all(self, tasks: anyio.abc.TaskGroup) -> None:
        events = sorted(self._changed, key=lambda event: (isinstance(event, ResourceUpdated), repr(event)))
        self._changed = set()
        for subscriber in list(self._subscribers.values()):
            if own := [event for event in events if subscriber.wants(event)]:
                tasks.start_soon(self._notify, subscriber.session, own)
        for event in events:
            await self._bus.publish(event)

    async def _notify(self, session: ServerSession, events: Iterable[ServerEvent]) -> None:
        try:
            with anyio.move_on_after(SEND_TIMEOUT):
                for event in events:
                    match event:
                        case ToolsListChanged():
                            await session.send_tool_list_changed()
                        case ResourcesListChanged():
                            await session.send_resource_list_changed()
                        case PromptsListChanged():
                            await session.send_prompt_list_changed()
                        case ResourceUpdated(uri):
                            await session.send_resource_updated(uri)
        except Exception as error:  # the client has just disconnected
            logger.debug("a change notification was not delivered: %r", error)

    def _get_subscriber(self, request: Request) -> HandshakeSubscriber:
        # The SDK does not announce the end of a connection; only its exit stack always runs.
        connection = request.session._connection
        key = id(connection)
        if key not in self._subscribers:
            self._subscribers[key] = HandshakeSubscriber(request.session)
            connection.exit_stack.callback(self._subscribers.pop, key, None)
        return self._subscribers[key]

    def _record(self, event: ServerEvent) -> None:
        self._changed.add(event)
        self._wake.set()

    def _record_soon(self, event: ServerEvent) -> None:
        """Record a change in the event loop. May be called from any thread."""
        if (soon := self._soon) is not None:
            with suppress(RuntimeError):  # the loop has just ended
                soon(partial(self._record, event))
