"""A token bucket limits a rate: `take_token` rejects the excess, `charge` and `wait_while_empty` delay it.

Instead of a number of tokens, the bucket stores the time at which it will be full, so that nothing has to refill it.
"""

from __future__ import annotations

import time

import anyio


class TokenBucket:
    """Allows `rate` tokens per second in the long run, and `burst` tokens at once."""

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
        """Take this many tokens, even if there are fewer."""
        self._full_at = max(self._full_at, time.monotonic()) + cost / self._rate

    @property
    def debt(self) -> float:
        """Seconds until the bucket is no longer overdrawn."""
        return max(0.0, self._full_at - time.monotonic() - self._burst / self._rate)

    async def wait_while_empty(self) -> None:
        """Wait until the bucket is no longer overdrawn."""
        if debt := self.debt:
            await anyio.sleep(debt)
