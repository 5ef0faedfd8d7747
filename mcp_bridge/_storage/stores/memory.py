"""A store in the memory of this process, bounded in bytes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import TLRUCache

MAX_BYTES = 32 * 1024 * 1024
ENTRY = 400
"""Bytes of memory per entry besides the value and its key (measured). Without it, tiny values would be unbounded."""

logger = logging.getLogger("mcp_bridge.stores")


class MemoryStore:
    """A `Store` of at most `max_bytes`, including keys and overhead. It evicts the least recently used entries first.

    `clock` returns seconds and never goes back.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept: TLRUCache[str, _MemoryEntry] = TLRUCache(
            max_bytes, lambda _, entry, now: now + entry.ttl, timer=clock, getsizeof=lambda entry: entry.size
        )

    async def get(self, key: str) -> bytes | None:
        entry = self._kept.get(key)
        return entry.value if entry is not None else None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds. A value that is larger than the whole store is dropped."""
        entry = _MemoryEntry(value, len(key) + len(value) + ENTRY, ttl)
        if entry.size <= self._kept.maxsize:
            self._kept[key] = entry
            return
        # No value is better than an outdated one.
        self._kept.pop(key, None)
        logger.warning("a value of %d bytes is larger than the store and was dropped", len(value))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        if key in self._kept:
            return False
        # This is atomic, because `set` never awaits.
        await self.set(key, value, ttl)
        return key in self._kept

    async def delete(self, key: str) -> None:
        self._kept.pop(key, None)

    async def keys(self, prefix: str) -> list[str]:
        self._kept.expire()
        return [key for key in self._kept if key.startswith(prefix)]


class _MemoryEntry(NamedTuple):
    """A stored value. A tuple, because it is the cheapest to make, and every call may make one."""

    value: bytes
    size: int
    ttl: float
