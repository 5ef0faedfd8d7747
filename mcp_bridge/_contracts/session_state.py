"""SessionState stores the shared values of a session (`CallContext.get_state`)."""

from __future__ import annotations

import json
from typing import Any, Protocol

from mcp_bridge._contracts.store import Store

TTL = 24 * 3600.0
"""Seconds after which a value expires, unless it is set again."""
MAX_SIZE = 1024 * 1024
"""The maximum number of bytes of a value's JSON."""


class StateValues(Protocol):
    """The values of a session, by key."""

    async def read_value(self, key: str) -> Any:
        """Return a value; None if there is none."""

    async def write_value(self, key: str, value: Any) -> None:
        """Store a value. Raises TypeError or ValueError if it is not JSON, or too large."""

    async def delete_value(self, key: str) -> None:
        """Delete a value, if it exists."""


class SessionState:
    """The values of one session in a store. Without a store, they belong to this object."""

    def __init__(self, store: Store | None = None, session: str = "") -> None:
        self._store = store
        # Clients may choose the names of sessions. With the length of the name, no name and key can form the prefix of
        # another session.
        self._prefix = f"mcp-bridge/state/{len(session)}/{session}/"
        self._values: dict[str, bytes] = {}

    async def read_value(self, key: str) -> Any:
        if self._store is None:
            data = self._values.get(key)
        else:
            data = await self._store.get(self._prefix + key)
        return json.loads(data) if data is not None else None

    async def write_value(self, key: str, value: Any) -> None:
        data = encode_value(key, value).encode()
        if self._store is None:
            self._values[key] = data
        else:
            await self._store.set(self._prefix + key, data, TTL)

    async def delete_value(self, key: str) -> None:
        if self._store is None:
            self._values.pop(key, None)
        else:
            await self._store.delete(self._prefix + key)


def encode_value(key: str, value: Any) -> str:
    """Return the value as JSON text. Raises TypeError or ValueError if it is not JSON, or too large."""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except TypeError as error:
        raise TypeError(f"the state '{key}' must be a JSON value: {error}") from None
    if len(text) > MAX_SIZE:
        raise ValueError(f"the state '{key}' has {len(text)} bytes; the limit is {MAX_SIZE}")
    return text
