"""ChangeNotifier: notifies clients of both eras of changed lists and updated resources.

A change may come from any thread. It becomes a ChangeEvent in the event loop, where changes in quick succession are
collected. Handshake clients get notifications over their connections, and stateless clients over the streams they open
with subscriptions/listen.
"""

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
"""The maximum number of resources to which a handshake client, or a stream, can subscribe."""
SUBSCRIBED = 256 * 1024
"""The maximum number of characters of a handshake client's URIs, and of bytes of the request that opens a stream."""
STREAMS = 8192
"""The maximum number of open subscriptions/listen streams."""
SHARES = 8
"""A client can have at most an eighth of the streams."""
BACKLOG = 1024
"""The maximum number of events that wait for the client of a stream. With more, the stream ends, so that the client
lists everything again."""
UPDATED = "notifications/resources/updated"
_FILTERS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""The keys in the `notifications` of subscriptions/listen, and the methods that they select."""
_TOOLS, _PROMPTS, _RESOURCES = _FILTERS.values()


class ChangeEvent(NamedTuple):
    """One notification. `uri` is the normal form of the URI of an updated resource, and empty for a changed list."""

    method: str
    uri: str = ""

    @property
    def params(self) -> dict[str, Any]:
        return {"uri": self.uri} if self.uri else {}

    def respell(self, uris: Mapping[str, str]) -> ChangeEvent:
        """Return the event with the URI as the client has written it. `uris` has these by their normal forms."""
        if not self.uri:
            return self
        return ChangeEvent(self.method, uris[self.uri])


class ListenEvent(Protocol):
    """A notification on a stream."""

    @property
    def method(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Any]: ...


class StreamFeed(Protocol):
    """A source of further events for a stream, such as the tasks that its client follows."""

    @property
    def acknowledged(self) -> Mapping[str, Any]:
        """The members of the stream's acknowledgement about this feed."""

    async def run(self, add_event: Callable[[ListenEvent], None]) -> None:
        """Add events until there are no more, or until cancelled."""


class ListenStream:
    """One subscriptions/listen stream.

    Attributes:
        methods: The methods of the notifications of changed lists the client wants.
        uris: The URIs of subscribed resources as the client has written them, by their normal forms.
        events: The events that wait for the client.
        is_closed: Whether the stream ends after these events.
    """

    __slots__ = ("_changed", "events", "is_closed", "methods", "uris")

    def __init__(self, methods: Set[str], uris: Mapping[str, str], *, is_closed: bool = False) -> None:
        self.methods = methods
        self.uris = uris
        self.events: deque[ListenEvent] = deque()
        self.is_closed = is_closed
        self._changed: anyio.Event | None = None

    def wants(self, event: ChangeEvent) -> bool:
        if event.uri:
            return event.uri in self.uris
        return event.method in self.methods

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
        """Wait for the next event, or for the end."""
        self._changed = anyio.Event()
        await self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()


class ChangeNotifier:
    """Notifies handshake clients directly, and stateless clients through subscriptions/listen.

    Attributes:
        subscriptions: The subscriptions of all clients, by which sources know which resources to follow.
    """

    def __init__(self, responses: Responses, subscriptions: Subscriptions) -> None:
        self._responses = responses
        self.subscriptions = subscriptions
        self._sessions: set[Session] = set()
        # The subscribed URIs of each handshake client as it has written them, by their normal forms.
        self._uris: dict[Session, dict[str, str]] = {}
        # The events that wait because the client has not read the last ones. A dict is an ordered set.
        self._waiting: dict[Session, dict[ChangeEvent, None]] = {}
        self._streams: set[ListenStream] = set()
        # The number of streams of each client.
        self._counts: Counter[str | None] = Counter()
        self._stream_limit = STREAMS
        # The changes since the last notifications, and the event that wakes the task that sends them.
        self._changes: set[ChangeEvent] = set()
        self._wake = anyio.Event()
        # Runs a function in the event loop, from any thread.
        self._call_soon: CallSoon | None = None
        self._is_closed = False

    def add_session(self, session: Session) -> None:
        """Notify this handshake client of changed lists until its session ends."""
        if session not in self._sessions:
            self._sessions.add(session)
            session.on_end(partial(self._sessions.discard, session))

    def subscribe(self, session: Session, uri: str) -> None:
        """Notify this handshake client of updates of a resource. Raises RpcError if it has too many subscriptions."""
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
        if len(self._streams) >= self._stream_limit:
            raise RpcError(INTERNAL_ERROR, "Too many subscriptions/listen streams are open. Retry later.")
        if self._counts[client] >= max(1, self._stream_limit // SHARES):
            raise RpcError(INTERNAL_ERROR, "This client has too many subscriptions/listen streams. Close one first.")
        filters = {key: True for key in _FILTERS if params["notifications"].get(key)}
        uris = params["notifications"].get("resourceSubscriptions") or []
        # The parameters are kept as long as the stream.
        if len(uris) > SUBSCRIPTIONS or is_larger(params, SUBSCRIBED):
            limits = f"{SUBSCRIPTIONS} resourceSubscriptions and {SUBSCRIBED} bytes"
            raise RpcError(INVALID_PARAMS, f"A subscriptions/listen request may have at most {limits}")
        stream = ListenStream(
            {_FILTERS[key] for key in filters}, {normalize_uri(uri): uri for uri in uris}, is_closed=self._is_closed
        )
        meta = {SUBSCRIPTION_ID: echo(request.id)}
        acknowledged: dict[str, Any] = dict(filters)
        if feed is not None:
            acknowledged |= feed.acknowledged
        if uris:
            acknowledged["resourceSubscriptions"] = echo(uris)
        self._streams.add(stream)
        self._counts[client] += 1
        self.subscriptions.add_uris(stream.uris)
        try:
            # After the acknowledgement, the client relies on being notified.
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

    def limit_streams(self, limit: int) -> None:
        """Limit the number of open streams. The limit is at least 1 and at most STREAMS."""
        self._stream_limit = max(1, min(STREAMS, limit))

    def close_streams(self) -> None:
        """End every subscriptions/listen stream with its final result. Later streams end at once."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    async def run(self, registry: ToolRegistry, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send notifications until cancelled. Changes in quick succession are sent as one."""
        self._call_soon = make_call_soon()
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
            stack.callback(setattr, self, "_call_soon", None)
            # A `_notify_session` that is cancelled before its first step cannot remove its session.
            stack.callback(self._waiting.clear)
            async with anyio.create_task_group() as tasks:
                task_status.started()
                while True:
                    await self._wake.wait()
                    self._wake = anyio.Event()
                    self._notify_all(tasks)

    def _notify_all(self, tasks: TaskGroup) -> None:
        # Changed lists come first, because their events have no URI.
        events = sorted(self._changes, key=lambda event: (event.uri, event.method))
        self._changes = set()
        for event in events:
            sessions = self._sessions
            if event.uri:
                sessions = {session for session, uris in self._uris.items() if event.uri in uris}
            for session in list(sessions):
                if session not in self._waiting:
                    self._waiting[session] = {}
                    tasks.start_soon(self._notify_session, session)
                self._waiting[session][event.respell(self._uris.get(session, {}))] = None
            for stream in list(self._streams):
                if stream.wants(event):
                    stream.add_event(event.respell(stream.uris))

    async def _notify_session(self, session: Session) -> None:
        """Send the waiting events of a client. While the client reads slowly, further events wait, each only once."""
        try:
            while self._waiting[session]:
                events = self._waiting[session]
                self._waiting[session] = {}
                for event in events:
                    session.notify(event.method, event.params or None)
                await session.drain()
        finally:
            del self._waiting[session]

    def _remove_session(self, session: Session) -> None:
        self.subscriptions.remove_uris(self._uris.pop(session))

    def _record(self, event: ChangeEvent) -> None:
        self._changes.add(event)
        self._wake.set()

    def _record_soon(self, event: ChangeEvent) -> None:
        """Record a change in the event loop. May be called from any thread."""
        call_soon = self._call_soon
        if call_soon is not None:
            # The event loop may just have ended.
            with suppress(RuntimeError):
                call_soon(partial(self._record, event))


async def _send_events(stream: ListenStream, request: Request, meta: Mapping[str, Any]) -> None:
    """Send the events of a stream until it is closed."""
    while stream.events or not stream.is_closed:
        while stream.events:
            event = stream.events.popleft()
            await request.notify(event.method, {**event.params, "_meta": meta})
        if not stream.is_closed:
            await stream.wait()
