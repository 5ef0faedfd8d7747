"""A clock for tests of expiry and timeouts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ManualClock:
    """A clock whose time changes only when a test changes `now`."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
