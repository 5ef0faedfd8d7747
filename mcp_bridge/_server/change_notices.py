"""Notifies clients of either era of changed lists and resources, whichever thread a change comes from."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.subscriptions import Subscriptions
from mcp_bridge._json_schema.uris import normalize_uri
from mcp_bridge._protocol.wire.meta_keys import SUBSCRIPTION_ID
from mcp_bridge._runtime.thread_pool import CallSoon, make_call_soon
from mcp_bridge._server.params import is_larger
from mcp_bridge._server.redaction import RequestError, echo
from mcp_bridge._server.requests import Request, Session, truncate_text
from mcp_bridge._server.responses import Responses

logger = logging.getLogger("mcp_bridge.server")

SUBSCRIPTIONS = 1024
"""The maximum number of resources that one handshake client, or one stream, may subscribe to."""
SUBSCRIBED = 256 * 1024
"""The maximum numbers of characters of their URIs in total, and of bytes of the request that opens a stream."""
STREAMS = 8192
"""The maximum number of subscriptions/listen streams at once."""
SHARES = 8
"""One client can have at most one in this many of the streams."""
BACKLOG = 1024
"""The maximum number of events that wait for a stream's client. With more, the stream ends: clients list again."""

UPDATED = "notifications/resources/updated"
_FILTERS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""The keys of a subscription, and the notifications that they select."""
_TOOLS, _PROMPTS, _RESOURCES = _FILTERS.values()


class ChangeEvent(NamedTuple):
    """One notification; `uri` is set only for an updated resource."""

    method: str
    uri: str = ""

    @property
    def params(self) -> dict[str, Any]:
        return {"uri": self.uri} if self.uri else {}

    def respell(self, uris: Mapping[str, str]) -> ChangeEvent:
        """Return the event with the URI as a client has subscribed to it; `uris` are these by their normal form."""
        return ChangeEvent(self.method, uris[self.uri]) if self.uri else self


class ListenEvent(Protocol):
    """A notification on a stream."""

    @property
    def method(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Any]: ...


class StreamFeed(Protocol):
    """A further source of the events of a stream."""

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """What the acknowledgement of the stream says about this feed."""

    async def run(self, add_event: Callable[[ListenEvent], None]) -> None:
        """Add events until there are no more, or until cancelled."""


class ListenStream:
    """One subscriptions/listen stream: its filters, and the queue of its events."""

    __slots__ = ("_news", "events", "is_closed", "methods", "uris")

    def __init__(self, methods: Set[str], uris: Mapping[str, str], *, is_closed: bool = False) -> None:
        self.methods = methods
        self.uris = uris
        self.events: deque[ListenEvent] = deque()
        self.is_closed = is_closed
        self._news: anyio.Event | None = None

    def wants(self, event: ChangeEvent) -> bool:
        return event.uri in self.uris if event.uri else event.method in self.methods

    def add_event(self, event: ListenEvent) -> None:
        if len(self.events) < BACKLOG:
            self.events.append(event)
        else:
            logger.warning("a listen stream ends because its client does not read")
            self.is_closed = True
        self._notify()

    def close(self) -> None:
        """End the stream after the events in its queue."""
        self.is_closed = True
        self._notify()

    async def wait(self) -> None:
        self._news = anyio.Event()
        await self._news.wait()

    def _notify(self) -> None:
        if self._news is not None:
            self._news.set()


class ChangeNotifier:
    """Notifies handshake clients directly, and stateless clients through subscriptions/listen.

    `subscriptions` counts the subscriptions to each resource.
    """

    def __init__(self, responses: Responses, subscriptions: Subscriptions) -> None:
        self._responses = responses
        self.subscriptions = subscriptions
        self._sessions: set[Session] = set()
        # The URIs as the client has written them, by their normal form.
        self._uris: dict[Session, dict[str, str]] = {}
        # The events of clients that have not read the last ones yet.
        self._waiting: dict[Session, dict[ChangeEvent, None]] = {}
        self._streams: set[ListenStream] = set()
        # The number of streams of each client.
        self._counts: Counter[str | None] = Counter()
        self._most = STREAMS
        self._changed: set[ChangeEvent] = set()
        self._wake = anyio.Event()
        self._soon: CallSoon | None = None
        self._is_closed = False

    def add_session(self, session: Session) -> None:
        """Notify this handshake client of changed lists until its session ends."""
        if session not in self._sessions:
            self._sessions.add(session)
            session.on_end(partial(self._sessions.discard, session))

    def subscribe(self, session: Session, uri: str) -> None:
        """Notify this handshake client of updates. Raises RpcError when it has too many subscriptions."""
        if session not in self._uris:
            self._uris[session] = {}
            session.on_end(partial(self._remove_session, session))
        uris = self._uris[session]
        is_full = len(uris) >= SUBSCRIPTIONS or sum(map(len, uris.values())) + len(uri) > SUBSCRIBED
        key = normalize_uri(uri)
        if key not in uris and is_full:
            raise RequestError(
                INVALID_PARAMS, "This connection has too many subscriptions", {"uri": truncate_text(uri)}
            )
        if key not in uris:
            uris[key] = uri
            self.subscriptions.add_uris([key])

    def unsubscribe(self, session: Session, uri: str) -> None:
        key = normalize_uri(uri)
        if self._uris.get(session, {}).pop(key, None) is not None:
            self.subscriptions.remove_uris([key])

    async def listen(
        self, request: Request, params: Mapping[str, Any], feed: StreamFeed | None = None
    ) -> dict[str, Any]:
        """Serve a subscriptions/listen stream until `close_streams` (2026-07-28, basic/utilities/subscriptions).

        Raises RpcError if the request is too large or there are too many streams.
        """
        client = request.incoming.client
        if len(self._streams) >= self._most:
            raise RpcError(INTERNAL_ERROR, "Too many subscriptions/listen streams are open. Retry later.")
        if self._counts[client] >= max(1, self._most // SHARES):
            raise RpcError(INTERNAL_ERROR, "This client has too many subscriptions/listen streams. Close one first.")
        filters = {key: True for key in _FILTERS if params["notifications"].get(key)}
        uris = params["notifications"].get("resourceSubscriptions") or []
        # The params are kept as long as the stream.
        if len(uris) > SUBSCRIPTIONS or is_larger(params, SUBSCRIBED):
            limits = f"{SUBSCRIPTIONS} resourceSubscriptions and {SUBSCRIBED} bytes"
            raise RpcError(INVALID_PARAMS, f"A subscriptions/listen request may have at most {limits}")
        stream = ListenStream(
            {_FILTERS[key] for key in filters}, {normalize_uri(uri): uri for uri in uris}, is_closed=self._is_closed
        )
        meta = {SUBSCRIPTION_ID: echo(request.id)}
        acknowledged: dict[str, Any] = {**filters, **(feed.acknowledged if feed is not None else {})}
        if uris:
            acknowledged["resourceSubscriptions"] = echo(uris)
        self._streams.add(stream)
        self._counts[client] += 1
        self.subscriptions.add_uris(stream.uris)
        try:
            if stream.uris and self.subscriptions.has_sources:
                await self.subscriptions.wait_until_followed()
            await request.notify(
                "notifications/subscriptions/acknowledged", {"notifications": acknowledged, "_meta": meta}
            )
            if feed is None:
                await _send_events(stream, request, meta)
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(feed.run, stream.add_event)
                    await _send_events(stream, request, meta)
                    tasks.cancel_scope.cancel()
        finally:
            self._streams.discard(stream)
            self.subscriptions.remove_uris(stream.uris)
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]
        return self._responses.complete_result({"_meta": meta}, request.version)

    def limit_streams(self, most: int) -> None:
        """Limit the number of concurrent streams to `most`, at most to `STREAMS`."""
        self._most = max(1, min(STREAMS, most))

    def close_streams(self) -> None:
        """End every subscriptions/listen stream with its final result; a later one ends immediately."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    async def run(self, registry: ToolRegistry, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send notifications until cancelled. Changes in quick succession are sent as one."""
        self._soon = make_call_soon()
        self._is_closed = False
        with ExitStack() as stack:
            for method, watch in (
                (_TOOLS, registry.watch),
                (_RESOURCES, registry.resources.watch),
                (_RESOURCES, registry.templates.watch),
                (_PROMPTS, registry.prompts.watch),
            ):
                stack.callback(watch(partial(self._record_soon, ChangeEvent(method))))
            stack.callback(
                registry.watch_updates(lambda uri: self._record_soon(ChangeEvent(UPDATED, normalize_uri(uri))))
            )
            stack.callback(setattr, self, "_soon", None)
            # A task that is cancelled before its first step removes nothing.
            stack.callback(self._waiting.clear)
            async with anyio.create_task_group() as tasks:
                task_status.started()
                while True:
                    await self._wake.wait()
                    self._wake = anyio.Event()
                    self._notify_all(tasks)

    def _notify_all(self, tasks: TaskGroup) -> None:
        events = sorted(self._changed, key=lambda event: (event.uri, event.method))
        self._changed = set()
        for event in events:
            for session in list(self._sessions if not event.uri else self._uris):
                if not event.uri or event.uri in self._uris[session]:
                    if session not in self._waiting:
                        self._waiting[session] = {}
                        tasks.start_soon(self._notify_session, session)
                    self._waiting[session][event.respell(self._uris.get(session, {}))] = None
            for stream in list(self._streams):
                if stream.wants(event):
                    stream.add_event(event.respell(stream.uris))

    async def _notify_session(self, session: Session) -> None:
        """Send each event once, including those from the time in which the client reads earlier ones."""
        try:
            while events := self._waiting[session]:
                self._waiting[session] = {}
                for event in events:
                    session.notify(event.method, event.params or None)
                await session.drain()
        finally:
            del self._waiting[session]

    def _remove_session(self, session: Session) -> None:
        self.subscriptions.remove_uris(self._uris.pop(session))

    def _record(self, event: ChangeEvent) -> None:
        self._changed.add(event)
        self._wake.set()

    def _record_soon(self, event: ChangeEvent) -> None:
        """Record a change in the event loop. May be called from any thread."""
        if (soon := self._soon) is not None:
            # The loop has just ended.
            with suppress(RuntimeError):
                soon(partial(self._record, event))


async def _send_events(stream: ListenStream, request: Request, meta: Mapping[str, Any]) -> None:
    """Send the events of a stream until it is closed."""
    while stream.events or not stream.is_closed:
        while stream.events:
            event = stream.events.popleft()
            await request.notify(event.method, {**event.params, "_meta": meta})
        if not stream.is_closed:
            await stream.wait()
