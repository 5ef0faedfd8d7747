"""One measuring window: which calls are open, which are answered, when it is full."""

import asyncio
import time

from benchmarks import wire
from benchmarks.wire import WrongAnswer


class Window:
    """Hands out call ids until there were enough calls and enough time."""

    def __init__(self, ids, calls, seconds):
        self._ids, self._calls = ids, calls
        self._until = time.perf_counter() + seconds
        self._open = set()
        self.sent = self.answered = 0
        self.finished = asyncio.get_running_loop().create_future()

    def next(self):
        """The id of the next call, or None when the window is full."""
        if self.sent >= self._calls and time.perf_counter() >= self._until:
            return None
        number = next(self._ids)
        self._open.add(number)
        self.sent += 1
        return number

    def settle(self, reply):
        """Take one reply. Raises WrongAnswer unless it is the answer to an open call."""
        number = wire.check_echo(reply)
        if number not in self._open:
            raise WrongAnswer(f"nobody asked for call {number}, or it was answered twice")
        self._open.remove(number)
        self.answered += 1

    def close_if_done(self):
        if not self._open and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, error):
        if not self.finished.done():
            self.finished.set_exception(error)
