"""One window: which requests are open, how long each took, and when the window is complete."""

import asyncio
import time

from benchmarks.wire import WrongResponse


class Window:
    """Numbers the requests of a workload until there were enough requests and enough time."""

    def __init__(self, requests, numbers, calls, seconds):
        self.requests = requests
        self.latencies = []
        self.finished = asyncio.get_running_loop().create_future()
        self._numbers, self._calls = numbers, calls
        self._end = time.perf_counter() + seconds
        self._sent = 0
        # When each open request was sent, by its number.
        self._open = {}

    def make_request(self):
        """Return the JSON of the next request, or None if the window is complete."""
        now = time.perf_counter()
        if self._sent >= self._calls and now >= self._end:
            return None
        number = next(self._numbers)
        self._open[number] = now
        self._sent += 1
        return self.requests.make_body(number)

    def accept(self, response, arrival):
        """Record a response and the time of its arrival. Raises WrongResponse unless its request is open."""
        number = self.requests.check_response(response)
        if number not in self._open:
            raise WrongResponse(f"call {number} was never sent, or this is its second response")
        self.latencies.append(arrival - self._open.pop(number))

    def finish_if_empty(self):
        """Finish the window unless a request is open."""
        if not self._open and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, error):
        """Finish the window with an error."""
        if not self.finished.done():
            self.finished.set_exception(error)
