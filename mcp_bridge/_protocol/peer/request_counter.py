"""Counts requests in flight, and lets the shutdown wait for them."""

from __future__ import annotations

import anyio


class RequestCounter:
    """Counts the requests in flight of any number of connections."""

    def __init__(self) -> None:
        self._open = 0
        self._news: anyio.Event | None = None  # made by the waiting task: calls should not pay for it
        self.hurried = False

    def add_request(self) -> None:
        self._open += 1

    def remove_request(self) -> None:
        """Count a response, or that there will be none."""
        self._open -= 1
        if not self._open and self._news is not None:
            self._news.set()

    def shorten_waits(self) -> None:
        """Shorten all waiting: a second signal has come, or the client has gone."""
        self.hurried = True
        if self._news is not None:
            self._news.set()

    async def wait_until_idle(self, patience: float, hurried: float = 0.0) -> bool:
        """Wait until no request is in flight, at most `patience` seconds (`hurried` in a hurry). Return whether so."""
        began = anyio.current_time()
        while self._open:
            left = began + (hurried if self.hurried else patience) - anyio.current_time()
            if left <= 0:
                break
            if self._news is None or self._news.is_set():
                self._news = anyio.Event()
            with anyio.move_on_after(left):
                await self._news.wait()
        return not self._open


class ClientRequests(RequestCounter):
    """The requests of one client that the counter counts. The shutdown does not wait for a client that has left."""

    def __init__(self, counter: RequestCounter) -> None:
        super().__init__()
        self._total = counter
        self._count = 0

    def add_request(self) -> None:
        self._count += 1
        self._total.add_request()

    def remove_request(self) -> None:
        if self._count:
            self._count -= 1
            self._total.remove_request()

    def remove_all(self) -> None:
        while self._count:
            self.remove_request()
