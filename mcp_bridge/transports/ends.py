"""How serving ends: the first signal drains what is unanswered, the second ends at once.

The bridge owns the signals, not a library: stock uvicorn and the SDK's stdio lose the calls in flight.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus


class Ledger:
    """How many requests are unanswered."""

    def __init__(self) -> None:
        self._open = 0
        self._idle: anyio.Event | None = None  # made by whoever waits: a call should not pay for it

    def opened(self) -> None:
        """One request more."""
        self._open += 1

    async def settled(self) -> None:
        """One request less; async, because the SDK awaits it for requests that end without an answer."""
        self._open -= 1
        if not self._open and self._idle is not None:
            self._idle.set()

    async def idle(self, patience: float) -> bool:
        """Wait until all are answered; whether they were in time."""
        with anyio.move_on_after(patience):
            while self._open:
                self._idle = anyio.Event()
                await self._idle.wait()
        return not self._open


async def on_signals(
    drain: Callable[[], None],
    now: Callable[[], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Call `drain` at the first SIGINT or SIGTERM, `now` at each later one. Where signals cannot be had, do nothing."""
    try:
        receiver = anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)
        with receiver as signals:
            task_status.started()
            act = drain
            async for _ in signals:
                act()
                act = now
    except (NotImplementedError, ValueError, RuntimeError):  # Windows' event loop, or not the main thread
        task_status.started()
