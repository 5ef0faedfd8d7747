"""An in-memory storage for the package `limits`, which the policy `rate_limit` uses without Redis.

The in-memory storage of the package starts up to 100 threads per second, and the event loop waits for each. A call
takes three times as long with it.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TypeVar

from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage

MIN_KEYS = 1000
"""With fewer keys, the storage does not search for keys without calls in their windows, which it removes."""


class ExactWindow:
    """The times of the calls in a window of `expiry` seconds, the oldest first."""

    __slots__ = ("expiry", "times")

    def __init__(self, expiry: int) -> None:
        self.expiry = expiry
        self.times: deque[float] = deque()

    def move(self, now: float) -> None:
        """Forget the calls that have left the window."""
        times = self.times
        start = now - self.expiry
        while times and times[0] < start:
            times.popleft()

    def is_empty(self, now: float) -> bool:
        """Return whether all calls have left the window."""
        self.move(now)
        return not self.times


class CountedWindow:
    """The numbers of calls in the current period of `expiry` seconds, and in the previous one.

    The strategy estimates the calls in a window, which overlaps both periods, from these numbers. `period` is the
    number of the current one.
    """

    __slots__ = ("current", "expiry", "period", "previous")

    def __init__(self, expiry: int) -> None:
        self.expiry = expiry
        self.period = 0
        self.current = 0
        self.previous = 0

    def move(self, now: float) -> float:
        """Begin a new period if the current one is over. Return the seconds until the end of the current period."""
        period, elapsed = divmod(now, self.expiry)
        if period != self.period:
            # If more than a period has passed, the previous one had no calls.
            self.previous = self.current if period == self.period + 1 else 0
            self.period = int(period)
            self.current = 0
        return self.expiry - elapsed

    def is_empty(self, now: float) -> bool:
        """Return whether neither period has calls."""
        self.move(now)
        return not self.current and not self.previous


W = TypeVar("W", ExactWindow, CountedWindow)


class WindowStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """Keeps the windows of calls for the strategies "moving window" and "sliding window counter" of `limits`.

    It is used in one event loop, so it needs no locks. Its clock is monotonic: a change of the system clock must not
    block calls.
    """

    STORAGE_SCHEME = None

    def __init__(self) -> None:
        super().__init__()
        self._exact: dict[str, ExactWindow] = {}
        self._counted: dict[str, CountedWindow] = {}
        self._next_search = MIN_KEYS

    def __len__(self) -> int:
        return len(self._exact) + len(self._counted)

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count calls if the window has room for them. Return whether it has room."""
        now = time.monotonic()
        window = self._exact.get(key) or self._add_window(self._exact, key, ExactWindow(expiry), now)
        window.move(now)
        if len(window.times) + amount > limit:
            return False
        window.times.extend([now] * amount)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time of the oldest call in the window, or now, and the number of calls."""
        now = time.monotonic()
        window = self._exact.get(key)
        if window is None or window.is_empty(now):
            return now, 0
        return window.times[0], len(window.times)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count calls if the window has room for them, with the previous period in proportion to its overlap."""
        now = time.monotonic()
        window = self._counted.get(key) or self._add_window(self._counted, key, CountedWindow(expiry), now)
        remaining = window.move(now)
        if window.current + int(window.previous * remaining / expiry) + amount > limit:
            return False
        window.current += amount
        return True

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Return the number of calls in the previous period, and the seconds until it leaves the window; then both for
        the current period."""
        window = self._counted.get(key) or CountedWindow(expiry)
        remaining = window.move(time.monotonic())
        return window.previous, remaining, window.current, remaining + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Forget the calls of a key."""
        self.clear(key)

    def clear(self, key: str) -> None:
        """Forget the calls of a key."""
        self._exact.pop(key, None)
        self._counted.pop(key, None)

    def reset(self) -> int:
        """Forget all calls; return how many keys they had."""
        count = len(self)
        self._exact.clear()
        self._counted.clear()
        return count

    def check(self) -> bool:
        """Return True: memory is always available."""
        return True

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Raise NotImplementedError, as `get` and `get_expiry` do: fixed windows are not supported."""
        raise NotImplementedError

    def get(self, key: str) -> int:
        raise NotImplementedError

    def get_expiry(self, key: str) -> float:
        raise NotImplementedError

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return ()

    def _add_window(self, windows: dict[str, W], key: str, window: W, now: float) -> W:
        """Add a window. Once there are many keys, remove those without calls: clients can create any number of keys."""
        if len(self) >= self._next_search:
            self._remove_empty(self._exact, now)
            self._remove_empty(self._counted, now)
            # The number of keys doubles between two searches, so their cost per call stays constant.
            self._next_search = max(MIN_KEYS, 2 * len(self))
        windows[key] = window
        return window

    def _remove_empty(self, windows: dict[str, W], now: float) -> None:
        for key in [key for key, window in windows.items() if window.is_empty(now)]:
            del windows[key]
