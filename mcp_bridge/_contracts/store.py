"""Stores: they keep state that outlives a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """Stores bytes by key, each with a time to live in seconds. Server instances may share a store."""

    async def get(self, key: str) -> bytes | None:
        """Return the value, or None if there is none or it has expired."""

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Store a value unless the key exists, atomically; return whether it was stored."""

    async def delete(self, key: str) -> None:
        """Delete a value, which need not exist."""


@runtime_checkable
class ListableStore(Store, Protocol):
    """A store that can list its keys, so that users can inspect its contents."""

    async def keys(self, prefix: str) -> Sequence[str]:
        """Return the keys that begin with `prefix`, of values that have not expired."""


@runtime_checkable
class ClosableStore(Protocol):
    """A store with connections, which are closed when the server ends."""

    async def aclose(self) -> None:
        """Close the connections."""
