"""Throttle: how many notifications one call may send."""

from __future__ import annotations

import time

RATE = 50.0
"""Notifications a second, in the long run (MCP basic/utilities/progress and server/utilities/logging: SHOULD limit)."""
BURST = 100
"""Notifications at once."""


class Throttle:
    """A token bucket: `BURST` at once, `RATE` a second after that."""

    __slots__ = ("_full_at",)

    def __init__(self) -> None:
        self._full_at = 0.0

    def allows(self) -> bool:
        """Whether one more may go now."""
        now = time.monotonic()
        full_at = max(self._full_at, now) + 1 / RATE
        if full_at - now > BURST / RATE:
            return False
        self._full_at = full_at
        return True
