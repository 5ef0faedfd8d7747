"""Clocks: how long handlers may still take to decide, which stands still while they wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

import anyio

from mcp_bridge.runtime.deadline import Deadline

_RUNNING: ContextVar[Clock | None] = ContextVar("clock", default=None)


class Clock:
    """The clock of the handlers that run in its block: the deadline of their `scope`."""

    __slots__ = ("_around", "_deadline", "_scope", "_stopped", "_token")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._deadline: Deadline | None = None  # made when it is first stopped, which hardly any is
        self._stopped = 0

    def __enter__(self) -> None:
        self._around = _RUNNING.get()
        self._token: Token[Clock | None] = _RUNNING.set(self)

    def __exit__(self, *_: object) -> None:
        _RUNNING.reset(self._token)

    def stop(self) -> None:
        """Let no time pass, nor for the handlers whose event this is a part of, until as many times started."""
        if not self._stopped:
            self._deadline = Deadline(self._scope)
            self._deadline.pause()
        self._stopped += 1
        if self._around is not None:
            self._around.stop()

    def start(self) -> None:
        """Go on with what was left."""
        self._stopped -= 1
        if not self._stopped and self._deadline is not None:
            self._deadline.resume()
        if self._around is not None:
            self._around.start()


@contextmanager
def unhurried() -> Iterator[None]:
    """Wait for a person in the block: the time they take is not that of the handler that asks."""
    clock = _RUNNING.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.start()
