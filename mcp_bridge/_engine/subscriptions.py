"""Counts the subscriptions of clients to resources, and reports them to sources.

A source of an upstream subscribes to a resource there while at least one client subscribes to it here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import anyio

from mcp_bridge._contracts.source import Source

TIMEOUT = 2.0
"""Seconds that the response to a client's subscription waits until the sources have subscribed as well."""


class Subscriptions:
    """Counts the subscriptions of clients to each URI. Only the thread of the event loop uses it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sources: list[Source] = []

    @property
    def has_sources(self) -> bool:
        """Whether a source receives the subscriptions."""
        return bool(self._sources)

    def attach(self, source: Source) -> None:
        """Report the first and the last subscription to each URI to this source."""
        self._sources.append(source)

    def add_uris(self, uris: Iterable[str]) -> None:
        """Count one more subscription to each URI."""
        for uri in uris:
            self._counts[uri] += 1
            if self._counts[uri] == 1:
                self._report(uri, is_wanted=True)

    def remove_uris(self, uris: Iterable[str]) -> None:
        """Count one subscription to each URI less."""
        for uri in uris:
            self._counts[uri] -= 1
            if not self._counts[uri]:
                del self._counts[uri]
                self._report(uri, is_wanted=False)

    async def wait_until_followed(self) -> None:
        """Wait until the sources have subscribed to all URIs, at most `TIMEOUT` seconds."""
        with anyio.move_on_after(TIMEOUT):
            for source in self._sources:
                await source.wait_until_followed()

    def _report(self, uri: str, *, is_wanted: bool) -> None:
        for source in self._sources:
            source.follow_resource(uri, is_wanted=is_wanted)
