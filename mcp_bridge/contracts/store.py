"""Store: where state goes that outlives a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """Bytes by key, each with a time to live in seconds. Instances that share one share what is in it."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or its time is over."""
        ...

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value for `ttl` seconds."""
        ...

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Keep a value unless there is one already, in one step; whether it was kept."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a value; it need not be there."""
        ...


@runtime_checkable
class Listing(Store, Protocol):
    """A store that can say what is in it, so that people can look through what is remembered."""

    async def keys(self, prefix: str) -> Sequence[str]:
        """The keys that begin so, of values whose time is not over."""
        ...
