"""A server for several faults in turn, restarted if one of them ended it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.client.raw_client import Json
from tests.client.server_process import ServerProcess, Way

REFERENCE = re.compile(r"^Tool '\w+' failed with an internal error \(reference [0-9a-f]{12}\)\.$")


class Shared:
    """One server for each way, for the tests of a module; `start` starts it when a test first needs it."""

    def __init__(self, start: Callable[[Way], AbstractContextManager[Any]]) -> None:
        self._start = start
        self._running: dict[Way, tuple[contextlib.ExitStack, Any]] = {}

    def server(self, way: Way) -> Any:
        """The server, a new one where there is none alive."""
        if way in self._running and not self._running[way][1].is_running:
            self.drop(way)
        if way not in self._running:
            stack = contextlib.ExitStack()
            self._running[way] = (stack, stack.enter_context(self._start(way)))
        return self._running[way][1]

    def drop(self, way: Way) -> None:
        """End the server, because its state would affect the next test."""
        self._running.pop(way)[0].close()

    def close(self) -> None:
        """End them all."""
        for way in list(self._running):
            self.drop(way)


@contextlib.contextmanager
def unharmed(server: ServerProcess) -> Iterator[None]:
    """Hold another call in flight during the block, and check that the server still works."""
    with server.keep_call_in_flight():
        yield
    still_serves(server)


def still_serves(server: ServerProcess) -> None:
    """A further call is answered, and nothing but messages was written."""
    assert server.get_text("echo", text="still here") == "still here"
    assert server.is_running
    assert getattr(server, "garbage", []) == []


def get_error_text(result: Json) -> str:
    """Return the text of an error result."""
    assert result.get("isError"), result
    return str(result["content"][0]["text"])
