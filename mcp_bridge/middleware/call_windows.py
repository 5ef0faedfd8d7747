"""Numbers of calls in moving windows of time, in the memory of this process.

The storage in memory of the package limits takes several times as long, and starts up to 100 threads per second, for
each of which the event loop waits.
"""

from __future__ import annotations

import time
from collections import deque

MAX_EXACT = 1000
"""The largest limit whose calls are kept with their times. Of larger ones, only the numbers in two windows are kept."""
MIN_KEYS = 1000
"""The fewest keys among which those that are out of date are searched for."""


class CallWindows:
    """The calls of many keys, of which each may have `most` in a window of some seconds."""

    def __init__(self, most: int, seconds: float) -> None:
        self._kind = ExactWindow if most <= MAX_EXACT else EstimatedWindow
        self._most, self._seconds = most, seconds
        self._windows: dict[tuple[str, ...], ExactWindow | EstimatedWindow] = {}
        self._next_search = MIN_KEYS

    def __len__(self) -> int:
        return len(self._windows)

    def find_wait(self, key: tuple[str, ...], *, is_counted: bool) -> float:
        """Return the seconds until the next call may run; 0 if it may run now, and then it counts if that is asked."""
        now = time.monotonic()
        window = self._windows.get(key)
        if window is None:
            window = self._add_window(key, now)
        wait = window.find_wait(now)
        if not wait and is_counted:
            window.add_call(now)
        return wait

    def _add_window(self, key: tuple[str, ...], now: float) -> ExactWindow | EstimatedWindow:
        if len(self._windows) >= self._next_search:
            self._windows = {key: each for key, each in self._windows.items() if not each.is_empty(now)}
            self._next_search = max(MIN_KEYS, 2 * len(self._windows))
        window = self._windows[key] = self._kind(self._most, self._seconds)
        return window


class ExactWindow:
    """Keeps the times of calls."""

    __slots__ = ("_seconds", "_times")

    def __init__(self, most: int, seconds: float) -> None:
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=most)

    def find_wait(self, now: float) -> float:
        """Return the seconds until the oldest call leaves a full window; 0 if the window is not full."""
        times = self._times
        if len(times) != times.maxlen:
            return 0.0
        oldest = times[0] if times else now  # of a limit of 0 calls
        return max(0.0, oldest + self._seconds - now)

    def add_call(self, now: float) -> None:
        """Count a call, in the place of the oldest one."""
        self._times.append(now)

    def is_empty(self, now: float) -> bool:
        """Whether the latest call has left the window."""
        return not self._times or self._times[-1] + self._seconds <= now


class EstimatedWindow:
    """Keeps the numbers of calls in the present period and in the one before.

    Of the calls in the period before, as many count as the part of it that is in the window.
    """

    __slots__ = ("_before", "_most", "_number", "_period", "_seconds")

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._period = self._number = self._before = 0

    def find_wait(self, now: float) -> float:
        """Return the seconds until less than the most calls are in the window, as far as is known."""
        period, passed = divmod(now, self._seconds)
        if period != self._period:
            self._before = self._number if period == self._period + 1 else 0
            self._period, self._number = int(period), 0
        left = self._seconds - passed
        if self._number + int(self._before * left / self._seconds) < self._most:
            return 0.0
        if self._number >= self._most:
            return left
        return left - self._seconds * (self._most - self._number) / self._before

    def add_call(self, now: float) -> None:
        """Count a call in the present period."""
        self._number += 1

    def is_empty(self, now: float) -> bool:
        """Whether no call was counted in the present period or the one before."""
        return now // self._seconds > self._period + 1
