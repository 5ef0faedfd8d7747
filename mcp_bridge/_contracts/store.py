"""Defines stores. They keep state beyond the end of a call, in memory or for several instances of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """Stores bytes by key, each with a time to live in seconds. Server instances may share a store.

    >>> class NoStore:
    ...     async def get(self, key): return None
    ...     async def set(self, key, value, ttl): pass
    ...     async def add(self, key, value, ttl): return True
    ...     async def delete(self, key): pass
    >>> isinstance(NoStore(), Store)
    True
    """

    async def get(self, key: str) -> bytes | None:
        """Return the value, or None if there is none or it has expired."""

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Store a value unless the key exists, in one atomic step. Return whether the value was stored."""

    async def delete(self, key: str) -> None:
        """Delete a value, if it exists."""


@runtime_checkable
class ListableStore(Store, Protocol):
    """A store with a list of its keys, for users who inspect its contents."""

    async def keys(self, prefix: str) -> Sequence[str]:
        """Return the keys that begin with `prefix`, without those of expired values."""


@runtime_checkable
class ClosableStore(Protocol):
    """A store with connections. The server closes them at its end."""

    async def aclose(self) -> None:
        """Close the connections."""


class StoreAddress(NamedTuple):
    """The kind of a store, and where it keeps its values.

    Attributes:
        type: `memory`, `sqlite`, `redis`, or `module:attribute` for a third-party store.
        location: The file of `sqlite`, empty for the default one, or the URL of `redis`.
    """

    type: str
    location: str = ""


def parse_store_address(text: str) -> StoreAddress:
    """Split an address such as `memory`, `sqlite:state.db`, `redis://localhost` or `module:Name`."""
    scheme, _, rest = text.partition(":")
    if scheme == "sqlite":
        return StoreAddress("sqlite", rest)
    if scheme in ("redis", "rediss", "unix") and rest.startswith("//"):
        return StoreAddress("redis", text)
    return StoreAddress(text)
