"""Servers that several tests of faults share. A server that a fault has ended is replaced by a new one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.client.raw_client import Json
from tests.client.server_process import ServerProcess, Way

REFERENCE = re.compile(r"^Tool '\w+' failed with an internal error \(reference [0-9a-f]{12}\)\.$")


class SharedServers:
    """One server process for each way, for all tests of a module. `start` is called when a test needs the server."""

    def __init__(self, start: Callable[[Way], AbstractContextManager[Any]]) -> None:
        self._start = start
        self._running: dict[Way, tuple[contextlib.ExitStack, Any]] = {}

    def server(self, way: Way) -> Any:
        """Return the running server of a way, or start a new one."""
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
        """End all servers."""
        for way in list(self._running):
            self.drop(way)


@contextlib.contextmanager
def assert_unharmed(server: ServerProcess) -> Iterator[None]:
    """Hold another call in flight during the block, and check that the server still works."""
    with server.keep_call_in_flight():
        yield
    assert_still_serves(server)


def assert_still_serves(server: ServerProcess) -> None:
    """Check that the server answers another call, and has written only messages to stdout."""
    assert server.get_text("echo", text="still here") == "still here"
    assert server.is_running
    assert getattr(server, "garbage", []) == []


def get_error_text(result: Json) -> str:
    """Return the text of an error result."""
    assert result.get("isError"), result
    return str(result["content"][0]["text"])
