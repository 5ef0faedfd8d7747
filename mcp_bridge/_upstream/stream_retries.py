"""Decides whether and when a stream of a server is opened again after it has ended."""

from __future__ import annotations

import anyio

STABLE = 10.0
"""Seconds after which a stream counts as working, even if it carried nothing."""
MAX_SHORT_STREAMS = 8
"""The number of streams in a row that end before they count as working. After that, no further one is opened."""
MAX_PAUSE = 60.0
"""The maximum of seconds before a stream is opened again, unless the server asks for a longer interval."""


class StreamRetries:
    """Counts the streams that end immediately, as they do on servers without notifications."""

    def __init__(self) -> None:
        self._failures = 0
        self._began = 0.0

    def start_stream(self) -> None:
        """Note when a stream is opened."""
        self._began = anyio.current_time()

    async def pause(self, interval: float, *, has_worked: bool = False, is_reachable: bool = True) -> bool:
        """Wait before the next stream, and return whether to open it.

        Args:
            interval: The seconds of the first wait. They double with each stream that did not work.
            has_worked: Whether the last stream has carried something.
            is_reachable: Whether the server has responded. One that does not may come back, so attempts never end.
        """
        has_worked = has_worked or anyio.current_time() - self._began >= STABLE
        self._failures += 1
        if has_worked:
            self._failures = 0
        if self._failures >= MAX_SHORT_STREAMS and is_reachable:
            return False
        doublings = min(max(self._failures - 1, 0), MAX_SHORT_STREAMS)
        await anyio.sleep(min(interval * 2**doublings, max(interval, MAX_PAUSE)))
        return True
