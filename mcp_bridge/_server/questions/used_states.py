"""Remembers which request states have been used. No other data can evict these records, so a state is valid once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto

from mcp_bridge._contracts.store import Store
from mcp_bridge._server.questions.request_state import SKEW

MARKS = 100_000
"""The maximum number of used states that are remembered, at about 200 bytes each."""
_PREFIX = "mcp-bridge/used/"


class StateUse(Enum):
    """Whether a state may be used."""

    FIRST = auto()
    REPEATED = auto()
    """It was used before, or the shared store failed."""
    NO_ROOM = auto()
    """Its use could not be remembered."""


class UsedStates:
    """Remembers the handles of used states until their seals, which are valid for `ttl` seconds, have expired.

    At most `most` handles are remembered, and at most half as many of one client. Beyond that no new state is issued
    (`has_room`), instead of an old handle forgotten. With a `shared` store, a state is valid once for all instances.
    """

    def __init__(
        self, shared: Store | None, ttl: float, *, most: int = MARKS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._ttl = ttl + SKEW
        self._most = most
        self._clock = clock
        self._used: dict[str, tuple[float, str | None]] = {}  # when it is forgotten and its client; the oldest is first
        self._counts: Counter[str | None] = Counter()

    def has_room(self, client: str | None, reserved: int = 0) -> bool:
        """Whether a new state of this client can be used later; `reserved` states were issued and are not used yet."""
        self._forget_expired()
        if len(self._used) + reserved >= self._most:
            return False
        return self._has_share(client)

    async def use(self, handle: str, client: str | None) -> StateUse:
        """Remember the use of a state, and return whether it is the first one."""
        self._forget_expired()
        if handle in self._used:
            return StateUse.REPEATED
        if len(self._used) >= self._most or not self._has_share(client):
            return StateUse.NO_ROOM
        self._used[handle] = (self._clock() + self._ttl, client)
        self._counts[client] += 1
        if self._shared is not None and not await self._shared.add(_PREFIX + handle, b"", self._ttl):
            return StateUse.REPEATED
        return StateUse.FIRST

    def _has_share(self, client: str | None) -> bool:
        return client is None or self._counts[client] < self._most // 2

    def _forget_expired(self) -> None:
        now = self._clock()
        while self._used:
            handle, (until, client) = next(iter(self._used.items()))
            if until > now:
                break
            del self._used[handle]
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]
