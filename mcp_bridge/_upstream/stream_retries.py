"""Decides whether and when the stream of a server is opened again."""

from __future__ import annotations

import anyio

STABLE = 10.0
"""Seconds after which a stream counts as working, even if it carried nothing."""
MAX_SHORT_STREAMS = 8
"""How many streams may end at once, one after the other, before no further one is opened."""
MAX_PAUSE = 60.0


class StreamRetries:
    """Counts the streams that end immediately, as they do on servers without notifications."""

    def __init__(self) -> None:
        self._failures = 0
        self._began = 0.0

    def start_stream(self) -> None:
        """Note when a stream is opened."""
        self._began = anyio.current_time()

    async def pause(self, interval: float, *, has_worked: bool = False, is_reachable: bool = True) -> bool:
        """Wait before the next stream, ever longer, and return whether to open it.

        A server that is not reachable may come back, so it does not end the attempts.
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
