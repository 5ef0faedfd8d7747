"""Pages: a list in pages for tools/list and similar methods.

A cursor names the last item of the page before, so the pages stay correct while items are added and removed.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

_MARK = b"after:"
"""The start of a decoded cursor, by which cursors of upstreams are recognized."""

ItemRenderer = Callable[[str], dict[str, Any]]
"""Renders one item of a list for clients of a protocol version."""
PageEncoder = Callable[[Mapping[str, Any], str], orjson.Fragment]
"""Encodes a page for clients of a protocol version as the JSON of a result."""


class BadCursor(ValueError):
    """The cursor was not made by `encode_cursor`."""


class Pages:
    """A list sorted by name. Each page is encoded once per protocol version until the list changes.

    `field` is the key of the list in the result, and `size` the maximum number of items of a page.
    """

    def __init__(self, field: str, size: int) -> None:
        self._field = field
        self._size = size
        self._items: Mapping[str, ItemRenderer] = {}
        self._names: Sequence[str] = ()
        # The encoded pages by version, start and variant.
        self._encoded: dict[tuple[str, int, str], orjson.Fragment] = {}
        self._secrets_version = 0

    def replace(self, items: Mapping[str, ItemRenderer]) -> None:
        """Replace the list by these items by name."""
        self._items = items
        self._names = sorted(items)
        self._encoded = {}

    def get_encoded(
        self, version: str, cursor: str | None, secrets_version: int, encode: PageEncoder, variant: str = ""
    ) -> orjson.Fragment:
        """Return one page: the items, and `nextCursor` if there are more. Raises BadCursor.

        Args:
            version: The protocol version of the client.
            cursor: The cursor of the page, or None for the first one.
            secrets_version: A number that changes whenever `encode` would redact other secrets.
            encode: Encodes the page.
            variant: Names what else the result of `encode` depends on.
        """
        if secrets_version != self._secrets_version:
            self._encoded = {}
            self._secrets_version = secrets_version
        start = self._find_start(cursor)
        page = self._encoded.get((version, start, variant))
        if page is None:
            page = encode(self._render(version, start), version)
            # A client can invent any number of cursors, so only the pages that a client gets in order are kept.
            if start % self._size == 0:
                self._encoded[version, start, variant] = page
        return page

    def render(self, version: str, cursor: str | None) -> dict[str, Any]:
        """Return one page as a mapping, without a cache. Raises BadCursor."""
        return self._render(version, self._find_start(cursor))

    def _find_start(self, cursor: str | None) -> int:
        return 0 if cursor is None else bisect_right(self._names, decode_cursor(cursor))

    def _render(self, version: str, start: int) -> dict[str, Any]:
        names = self._names[start : start + self._size]
        page: dict[str, Any] = {self._field: [self._items[name](version) for name in names]}
        if start + self._size < len(self._names):
            page["nextCursor"] = encode_cursor(names[-1])
        return page


def encode_cursor(name: str) -> str:
    """Return the cursor of the page after `name`."""
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """Return the name before the page. Raises BadCursor unless `encode_cursor` has made the cursor."""
    try:
        data = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        name = data.removeprefix(_MARK).decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadCursor(cursor) from error
    if not data.startswith(_MARK) or encode_cursor(name) != cursor:
        raise BadCursor(cursor)
    return name
