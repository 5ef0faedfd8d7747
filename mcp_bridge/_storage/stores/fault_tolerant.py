"""Protects the server from failures and delays of another store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio

from mcp_bridge._contracts.store import ClosableStore, Store

T = TypeVar("T")
TIMEOUT = 5.0
"""Seconds that an operation may take, unless the store has another limit."""

logger = logging.getLogger("mcp_bridge.stores")


class FaultTolerantStore:
    """A `Store` that logs the failures of another one instead of raising them.

    If a value cannot be read, it is None. If it cannot be stored, it is dropped. `seconds` is the time limit of each
    operation.
    """

    def __init__(self, store: Store, *, seconds: float = TIMEOUT) -> None:
        self._store = store
        self._seconds = seconds

    async def get(self, key: str) -> bytes | None:
        return await self._run_with_timeout(partial(self._store.get, key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await self._run_with_timeout(partial(self._store.set, key, value, ttl))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        return bool(await self._run_with_timeout(partial(self._store.add, key, value, ttl)))

    async def delete(self, key: str) -> None:
        await self._run_with_timeout(partial(self._store.delete, key))

    async def aclose(self) -> None:
        if isinstance(self._store, ClosableStore):
            await self._run_with_timeout(self._store.aclose)

    async def _run_with_timeout(self, request: Callable[[], Awaitable[T]]) -> T | None:
        try:
            with anyio.fail_after(self._seconds):
                return await request()
        except Exception as error:
            logger.warning("the store failed: %r", error)
            return None
