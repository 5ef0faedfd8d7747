"""A store that somebody else wrote, kept from holding anybody up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio

from mcp_bridge.contracts.store import Store

T = TypeVar("T")
PATIENCE = 5.0

logger = logging.getLogger("mcp_bridge.stores")


class PatientStore:
    """A `Store` whose failures are logged: what it fails to give is not there, what it fails to keep is not kept.

    `seconds` is how long it may take for one answer.
    """

    def __init__(self, store: Store, *, seconds: float = PATIENCE) -> None:
        self._store = store
        self._seconds = seconds

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none, its time is over, or the store fails."""
        return await self._within(partial(self._store.get, key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value for `ttl` seconds, unless the store fails."""
        await self._within(partial(self._store.set, key, value, ttl))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Keep a value unless there is one already, or the store fails; whether it was kept."""
        return bool(await self._within(partial(self._store.add, key, value, ttl)))

    async def delete(self, key: str) -> None:
        """Forget a value, unless the store fails."""
        await self._within(partial(self._store.delete, key))

    async def _within(self, request: Callable[[], Awaitable[T]]) -> T | None:
        try:
            with anyio.fail_after(self._seconds):
                return await request()
        except Exception as error:
            logger.warning("the store failed: %r", error)
            return None
