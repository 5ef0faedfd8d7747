"""Paginated lists. A cursor names the last item of the page before, so pages stay correct while the list changes."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

_MARK = b"after:"

ItemRenderer = Callable[[str], dict[str, Any]]
"""Renders one item of a list for clients of a protocol version."""
PageEncoder = Callable[[Mapping[str, Any], str], orjson.Fragment]
"""Encodes a page for clients of a protocol version as the JSON of a result."""


class BadCursor(ValueError):
    """A cursor of another server, or an invented one."""


class Pages:
    """A list sorted by name. Each page is encoded once per protocol version and change.

    `field` is the list's key in MCP's result, `size` the most items per page.
    """

    def __init__(self, field: str, size: int) -> None:
        self._field = field
        self._size = size
        self._items: Mapping[str, ItemRenderer] = {}
        self._names: Sequence[str] = ()
        self._encoded: dict[tuple[str, int, str], orjson.Fragment] = {}
        self._secrets = 0

    def replace(self, items: Mapping[str, ItemRenderer]) -> None:
        self._items, self._names, self._encoded = items, sorted(items), {}

    def get_encoded(
        self, version: str, cursor: str | None, secrets: int, encode: PageEncoder, variant: str = ""
    ) -> orjson.Fragment:
        """Return one page: the items, and `nextCursor` if there are more. Raises BadCursor.

        `secrets` changes whenever `encode` would redact more, `variant` names what else its result depends on.
        """
        if secrets != self._secrets:
            self._encoded, self._secrets = {}, secrets
        start = self._find_start(cursor)
        page = self._encoded.get((version, start, variant))
        if page is None:
            page = encode(self._render(version, start), version)
            # Only these pages are kept, because a client can invent any number of other cursors.
            if start % self._size == 0:
                self._encoded[version, start, variant] = page
        return page

    def render(self, version: str, cursor: str | None) -> dict[str, Any]:
        """Return one page as a mapping. It is not cached. Raises BadCursor."""
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
