"""Paginated lists. A cursor names the item that a page begins after, so pages stay right while the list changes."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_MARK = b"after:"

ItemRenderer = Callable[[str], dict[str, Any]]
"""Renders one item of a list for clients of a protocol version."""


class BadCursor(ValueError):
    """A cursor that this server did not issue."""


class Pages:
    """A list sorted by name, rendered once per page, protocol version and change.

    `field` is the list's key in MCP's result, `size` the most items per page.
    """

    def __init__(self, field: str, size: int) -> None:
        self._field = field
        self._size = size
        self._items: Mapping[str, ItemRenderer] = {}
        self._names: Sequence[str] = ()
        self._rendered: dict[tuple[str, int], dict[str, Any]] = {}

    def replace(self, items: Mapping[str, ItemRenderer]) -> None:
        self._items, self._names, self._rendered = items, sorted(items), {}

    def get_page(self, version: str, cursor: str | None) -> Mapping[str, Any]:
        """Return one page: the items, and `nextCursor` if there are more. Raises BadCursor."""
        start = 0 if cursor is None else bisect_right(self._names, decode_cursor(cursor))
        page = self._rendered.get((version, start))
        if page is None:
            page = self._render(version, start)
            if start % self._size == 0:  # do not keep pages of cursors that a client made up
                self._rendered[version, start] = page
        return page

    def _render(self, version: str, start: int) -> dict[str, Any]:
        names = self._names[start : start + self._size]
        page: dict[str, Any] = {self._field: [self._items[name](version) for name in names]}
        if start + self._size < len(self._names):
            page["nextCursor"] = encode_cursor(names[-1])
        return page


def encode_cursor(name: str) -> str:
    """Return the cursor of the page that begins after `name`."""
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """Return the name that a page begins after. Raises BadCursor for a cursor that `encode_cursor` did not make."""
    try:
        data = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        name = data.removeprefix(_MARK).decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadCursor(cursor) from error
    if not data.startswith(_MARK) or encode_cursor(name) != cursor:
        raise BadCursor(cursor)
    return name
