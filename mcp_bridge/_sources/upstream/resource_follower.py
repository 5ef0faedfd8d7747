"""Subscribes to resources of a server while at least one client is subscribed to them.

`follow_resource` and `update_offer` only note which resources have to be reviewed (`_pending`). The task in `run`
reviews them, and changes the subscriptions of the server: a resource is followed if a client wants it and the server
offers it. In the handshake era, each subscription is a request, in the stateless era, all of them are one stream.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._contracts.jsonrpc import METHOD_NOT_FOUND, RpcError
from mcp_bridge._contracts.source import Offer
from mcp_bridge._json_schema.uri_templates import OpaqueTemplate, UriTemplate
from mcp_bridge._json_schema.uris import normalize_uri, quote_uri
from mcp_bridge._upstream.session import UpstreamSession
from mcp_bridge._upstream.stream_retries import StreamRetries

logger = logging.getLogger("mcp_bridge.sources.upstream")

MAX_FOLLOWED = 1024
"""The maximum number of resources of one server that are followed. Changes of further ones are not reported."""
OPEN_TIMEOUT = 2.0
"""Seconds that a server may take to confirm a subscription or a new stream of changes."""
RETRY_INTERVAL = 0.5
"""Seconds before a stream of changes is opened again after the server has closed it."""


class ResourceFollower:
    """Follows the changes of resources of one server, with one subscription for all clients."""

    def __init__(self) -> None:
        # The resources of all servers that clients want, because a resource may move to another server. All URIs in
        # this class are normalized.
        self._wanted: set[str] = set()
        # The resources that `run` has to review.
        self._pending: set[str] = set()
        # The URIs of offered resources as the server writes them, by their normalized forms.
        self._spellings: dict[str, str] = {}
        self._templates: list[UriTemplate | OpaqueTemplate] = []
        self._changed = anyio.Event()
        # Set after the next review; None while there is no connection.
        self._reviewed: anyio.Event | None = None

    def follow_resource(self, uri: str, *, is_wanted: bool) -> None:
        """Start or stop following a resource, if the server has it."""
        uri = normalize_uri(uri)
        if is_wanted:
            self._wanted.add(uri)
        else:
            self._wanted.discard(uri)
        self._review_later([uri])

    def update_offer(self, offer: Offer) -> None:
        """Review all wanted resources, because the offer of the server has changed."""
        self._spellings = {normalize_uri(entry.uri): entry.uri for entry in offer.resources}
        self._templates = []
        for entry in offer.templates:
            template_class = OpaqueTemplate if entry.is_opaque else UriTemplate
            self._templates.append(template_class(normalize_uri(entry.uri_template)))
        self._review_later(self._wanted)

    async def wait_until_followed(self) -> None:
        """Wait until the server has confirmed the subscriptions, if it is connected."""
        while self._reviewed is not None and self._pending:
            await self._reviewed.wait()

    async def run(self, session: UpstreamSession) -> None:
        """Keep the subscriptions of a session up to date until cancelled."""
        self._pending = set(self._wanted)
        self._reviewed = anyio.Event()
        subscriptions = _StreamSubscription(session) if session.is_stateless else _RequestSubscriptions(session)
        followed_uris: frozenset[str] = frozenset()
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._changed = anyio.Event()
                    pending = set(self._pending)
                    unchanged_uris = followed_uris - pending
                    new_uris = [*unchanged_uris, *filter(self._should_follow, pending)]
                    next_uris = frozenset(new_uris[:MAX_FOLLOWED])
                    if next_uris != followed_uris:
                        await subscriptions.replace(self._spell(followed_uris), self._spell(next_uris), tasks)
                        followed_uris = next_uris
                    # After a change in the meantime, the same resource may be pending again, so all are reviewed again.
                    if not self._changed.is_set():
                        self._pending -= pending
                    self._finish_review(anyio.Event())
                    await self._changed.wait()
        finally:
            self._finish_review(None)

    def _review_later(self, uris: Iterable[str]) -> None:
        """Let `run` review these resources. Without a connection, none are noted: `run` begins with all wanted ones."""
        if self._reviewed is not None:
            self._pending.update(uris)
            self._changed.set()

    def _finish_review(self, next_event: anyio.Event | None) -> None:
        """Release the tasks waiting for a review. `next_event` is for the next one, or None at the end."""
        previous_event = self._reviewed
        self._reviewed = next_event
        if previous_event is not None:
            previous_event.set()

    def _should_follow(self, uri: str) -> bool:
        is_offered = uri in self._spellings or any(template.match(uri) is not None for template in self._templates)
        return uri in self._wanted and is_offered

    def _spell(self, uris: frozenset[str]) -> frozenset[str]:
        """Return the URIs as the server lists them. Those of templates are quoted as in requests."""
        return frozenset(self._spellings.get(uri) or quote_uri(uri) for uri in uris)


class _RequestSubscriptions:
    """The subscriptions of a session in the handshake era: one request for each resource."""

    def __init__(self, session: UpstreamSession) -> None:
        self._session = session

    async def replace(self, old: frozenset[str], new: frozenset[str], tasks: TaskGroup) -> None:
        for method, uris in (("resources/subscribe", new - old), ("resources/unsubscribe", old - new)):
            for uri in sorted(uris):
                try:
                    await self._session.send_request(method, {"uri": uri}, timeout=OPEN_TIMEOUT)
                except RpcError as error:
                    logger.warning("%s failed: %s", method, error)


class _StreamSubscription:
    """The subscription of a session in the stateless era: one stream for all resources."""

    def __init__(self, session: UpstreamSession) -> None:
        self._session = session
        self._stream_scope = anyio.CancelScope()

    async def replace(self, old: frozenset[str], new: frozenset[str], tasks: TaskGroup) -> None:
        old_scope = self._stream_scope
        self._stream_scope = anyio.CancelScope()
        if new:
            open_event = anyio.Event()
            tasks.start_soon(self._receive_changes, sorted(new), self._stream_scope, open_event)
            with anyio.move_on_after(OPEN_TIMEOUT):
                await open_event.wait()
        # The old stream ends only now, so that no change is lost in between.
        old_scope.cancel()

    async def _receive_changes(self, uris: list[str], scope: anyio.CancelScope, open_event: anyio.Event) -> None:
        retries = StreamRetries()
        with scope:
            while True:
                retries.start_stream()
                try:
                    await self._session.receive_changes(uris, on_open=open_event.set)
                except RpcError as error:
                    # A server without this method never reports changes. After any other error, the stream is opened
                    # again, as after its end.
                    if error.code == METHOD_NOT_FOUND:
                        open_event.set()
                        return
                if not await retries.pause(RETRY_INTERVAL):
                    open_event.set()
                    return
