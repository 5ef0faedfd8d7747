"""A token bucket: it rejects or delays the excess over a rate."""

from __future__ import annotations

import time

import anyio


class TokenBucket:
    """Allows `rate` per second in the long run, with bursts of `burst`."""

    __slots__ = ("_burst", "_full_at", "_rate")

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._full_at = 0.0

    def take_token(self) -> bool:
        """Take a token; return whether there was one."""
        time_now = time.monotonic()
        full_at = max(self._full_at, time_now) + 1 / self._rate
        if full_at - time_now > self._burst / self._rate:
            return False
        self._full_at = full_at
        return True

    def charge(self, cost: float) -> None:
        """Take this many tokens, also if there are fewer."""
        self._full_at = max(self._full_at, time.monotonic()) + cost / self._rate

    @property
    def debt(self) -> float:
        """Seconds until the charges beyond the burst are refilled."""
        return max(0.0, self._full_at - time.monotonic() - self._burst / self._rate)

    async def wait_while_empty(self) -> None:
        """Wait until the charges beyond the burst are refilled."""
        if debt := self.debt:
            await anyio.sleep(debt)
