"""Subscribes to resources of a server while at least one client is subscribed to them."""

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
"""Seconds that a server may take to acknowledge a stream of changes, before the last one is closed."""
RETRY_INTERVAL = 0.5
"""Seconds before a stream of changes is opened again that the server has closed."""


class ResourceFollower:
    """Follows the changes of resources of one server, with one subscription for all clients."""

    def __init__(self) -> None:
        # These are the resources of all servers, because a resource may move to another one.
        self._wanted: set[str] = set()
        self._pending: set[str] = set()
        self._spellings: dict[str, str] = {}
        self._templates: list[UriTemplate | OpaqueTemplate] = []
        self._changed = anyio.Event()
        self._settled: anyio.Event | None = None

    def follow_resource(self, uri: str, *, is_wanted: bool) -> None:
        """Follow a resource, or no longer, if the server has it."""
        uri = normalize_uri(uri)
        (self._wanted.add if is_wanted else self._wanted.discard)(uri)
        self._review_later([uri])

    def update_offer(self, offer: Offer) -> None:
        """Use the new offer of the server."""
        self._spellings = {normalize_uri(entry.uri): entry.uri for entry in offer.resources}
        self._templates = [
            (OpaqueTemplate if entry.is_opaque else UriTemplate)(normalize_uri(entry.uri_template))
            for entry in offer.templates
        ]
        self._review_later(self._wanted)

    async def wait_until_followed(self) -> None:
        """Wait until the server has confirmed the subscriptions, if it is connected."""
        while self._settled is not None and self._pending:
            await self._settled.wait()

    async def run(self, session: UpstreamSession) -> None:
        """Keep the subscriptions of a session up to date until cancelled."""
        self._pending = set(self._wanted)
        self._settled = anyio.Event()
        subscriptions = _Streams(session) if session.is_stateless else _Requests(session)
        followed_uris: frozenset[str] = frozenset()
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._changed = anyio.Event()
                    pending = set(self._pending)
                    wanted_uris = frozenset(
                        [*(followed_uris - pending), *filter(self._is_followed, pending)][:MAX_FOLLOWED]
                    )
                    if wanted_uris != followed_uris:
                        await subscriptions.replace(self._spell(followed_uris), self._spell(wanted_uris), tasks)
                        followed_uris = wanted_uris
                    self._pending -= pending if not self._changed.is_set() else set()
                    self._release_waiting(anyio.Event())
                    await self._changed.wait()
        finally:
            self._release_waiting(None)

    def _review_later(self, uris: Iterable[str]) -> None:
        """Let `run` check these resources. It begins with all wanted ones, so none are noted before."""
        if self._settled is not None:
            self._pending.update(uris)
            self._changed.set()

    def _release_waiting(self, following: anyio.Event | None) -> None:
        last_event, self._settled = self._settled, following
        if last_event is not None:
            last_event.set()

    def _is_followed(self, uri: str) -> bool:
        is_offered = uri in self._spellings or any(template.match(uri) is not None for template in self._templates)
        return uri in self._wanted and is_offered

    def _spell(self, uris: frozenset[str]) -> frozenset[str]:
        """Return the URIs as the server lists them, or else as it reads them."""
        return frozenset(self._spellings.get(uri) or quote_uri(uri) for uri in uris)


class _Requests:
    """Subscriptions of the handshake era: one request for each resource."""

    def __init__(self, session: UpstreamSession) -> None:
        self._session = session

    async def replace(self, old: frozenset[str], new: frozenset[str], tasks: TaskGroup) -> None:
        for method, uris in (("resources/subscribe", new - old), ("resources/unsubscribe", old - new)):
            for uri in sorted(uris):
                try:
                    await self._session.send_request(method, {"uri": uri}, timeout=OPEN_TIMEOUT)
                except RpcError as error:
                    logger.warning("%s failed: %s", method, error)


class _Streams:
    """Subscriptions of the stateless era: one stream for all resources, replaced by a new one after a change."""

    def __init__(self, session: UpstreamSession) -> None:
        self._session = session
        self._last = anyio.CancelScope()

    async def replace(self, old: frozenset[str], new: frozenset[str], tasks: TaskGroup) -> None:
        last, self._last = self._last, anyio.CancelScope()
        if new:
            open_event = anyio.Event()
            tasks.start_soon(self._receive_changes, sorted(new), self._last, open_event)
            with anyio.move_on_after(OPEN_TIMEOUT):
                await open_event.wait()
        last.cancel()

    async def _receive_changes(self, uris: list[str], scope: anyio.CancelScope, open_event: anyio.Event) -> None:
        retries = StreamRetries()
        with scope:
            while True:
                retries.start_stream()
                try:
                    await self._session.receive_changes(uris, on_open=open_event.set)
                except RpcError as error:
                    if error.code == METHOD_NOT_FOUND:
                        open_event.set()
                        return
                if not await retries.pause(RETRY_INTERVAL):
                    open_event.set()
                    return
