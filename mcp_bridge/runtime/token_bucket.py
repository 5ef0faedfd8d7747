"""A token bucket that delays the caller when it exceeds the rate."""

from __future__ import annotations

import time

import anyio


class TokenBucket:
    """Allows `burst` at once, and `rate` per second in the long run."""

    __slots__ = ("_burst", "_full_at", "_rate")

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._full_at = 0.0

    def charge(self, cost: float) -> None:
        self._full_at = max(self._full_at, time.monotonic()) + cost / self._rate

    async def wait_while_empty(self) -> None:
        """Wait until what was charged beyond the burst has been refilled."""
        delay = self._full_at - time.monotonic() - self._burst / self._rate
        if delay > 0:
            await anyio.sleep(delay)
