"""A store in the memory of this process: bounded in bytes, gone with the process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import TLRUCache

MAX_BYTES = 64 * 1024 * 1024
ENTRY = 400
"""Bytes that keeping a value costs besides the value and its key, measured; or tiny ones would cost nothing."""

logger = logging.getLogger("mcp_bridge.stores")


class MemoryStore:
    """A `Store` of at most `max_bytes`, keys and bookkeeping included: what nobody touched for longest goes first.

    `clock` gives seconds and never goes back.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept: TLRUCache[str, _Kept] = TLRUCache(max_bytes, _end, timer=clock, getsizeof=_size)

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or its time is over."""
        kept = self._kept.get(key)
        return kept.value if kept is not None else None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value for `ttl` seconds; one that is larger than the whole store is not kept."""
        kept = _Kept(value, len(key) + len(value) + ENTRY, ttl)
        if kept.size <= self._kept.maxsize:
            self._kept[key] = kept
            return
        self._kept.pop(key, None)  # better no value than an old one
        logger.warning("a value of %d bytes is larger than the store and was not kept", len(value))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Keep a value unless there is one already, in one step; whether it was kept."""
        if key in self._kept:
            return False
        await self.set(key, value, ttl)  # nothing in there waits, so nobody comes in between
        return key in self._kept

    async def delete(self, key: str) -> None:
        """Forget a value; it need not be there."""
        self._kept.pop(key, None)

    async def keys(self, prefix: str) -> list[str]:
        """The keys that begin so."""
        self._kept.expire()
        return [key for key in self._kept if key.startswith(prefix)]


class _Kept(NamedTuple):
    """What is kept under a key; a tuple, because making one is on the way of every call."""

    value: bytes
    size: int
    ttl: float


def _size(kept: _Kept) -> int:
    return kept.size


def _end(_: str, kept: _Kept, now: float) -> float:
    return now + kept.ttl
