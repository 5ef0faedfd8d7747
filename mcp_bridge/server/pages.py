"""Pages of a list, each made once for a protocol version and a change."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp_bridge.server.paging import decode, encode

Lister = Callable[[str], dict[str, Any]]
"""One item of a list, as clients of a protocol version see it."""


class Pages:
    """A list in the order of its names. `field` is what MCP calls it, `size` the most items in one answer."""

    def __init__(self, field: str, size: int) -> None:
        self._field = field
        self._size = size
        self._items: Mapping[str, Lister] = {}
        self._names: Sequence[str] = ()
        self._made: dict[tuple[str, int], dict[str, Any]] = {}

    def replace(self, items: Mapping[str, Lister]) -> None:
        """Make these the items, by name."""
        self._items, self._names, self._made = items, sorted(items), {}

    def page(self, version: str, cursor: str | None) -> Mapping[str, Any]:
        """One page: the items, and `nextCursor` when there are more. Raises BadCursor."""
        start = 0 if cursor is None else bisect_right(self._names, decode(cursor))
        made = self._made.get((version, start))
        if made is None:
            made = self._make(version, start)
            if start % self._size == 0:  # where our own cursors lead; a client's inventions are not kept
                self._made[version, start] = made
        return made

    def _make(self, version: str, start: int) -> dict[str, Any]:
        names = self._names[start : start + self._size]
        made: dict[str, Any] = {self._field: [self._items[name](version) for name in names]}
        if start + self._size < len(self._names):
            made["nextCursor"] = encode(names[-1])
        return made
