"""A store in the memory of this process, of at most 32 MiB."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import TLRUCache

MAX_BYTES = 32 * 1024 * 1024
ENTRY_OVERHEAD = 400
"""Bytes of memory for an entry in addition to its key and value (measured). Otherwise, any number of empty values would
fit."""

logger = logging.getLogger("mcp_bridge.stores")


class MemoryStore:
    """A `Store` of at most `max_bytes`, including keys and overhead. It evicts the least recently used entries first.

    `clock` returns seconds and never goes back.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: TLRUCache[str, _MemoryEntry] = TLRUCache(
            max_bytes, lambda _, entry, now: now + entry.ttl, timer=clock, getsizeof=lambda entry: entry.size
        )

    async def get(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds. A value that is larger than the whole store is dropped."""
        entry = _MemoryEntry(value, len(key) + len(value) + ENTRY_OVERHEAD, ttl)
        if entry.size <= self._entries.maxsize:
            self._entries[key] = entry
            return
        # No value is better than an outdated one.
        self._entries.pop(key, None)
        logger.warning("a value of %d bytes is larger than the store and was dropped", len(value))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        if key in self._entries:
            return False
        # This is atomic, because `set` never awaits.
        await self.set(key, value, ttl)
        return key in self._entries

    async def delete(self, key: str) -> None:
        self._entries.pop(key, None)

    async def keys(self, prefix: str) -> list[str]:
        self._entries.expire()
        return [key for key in self._entries if key.startswith(prefix)]


class _MemoryEntry(NamedTuple):
    """A stored value. It is a tuple, because each call may store one, and a tuple costs least to make."""

    value: bytes
    size: int
    ttl: float
