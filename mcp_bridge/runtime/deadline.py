"""Deadlines that pause while a user is asked."""

from __future__ import annotations

import anyio


class Deadline:
    """The deadline of a cancel scope, that of a running call or of hooks that decide about one."""

    __slots__ = ("_left", "scope")

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self._left = 0.0

    @property
    def deadline(self) -> float:
        """The time on the event loop's clock at which the call has to end."""
        return float(self.scope.deadline)

    def pause(self) -> None:
        self._left = self.scope.deadline - anyio.current_time()
        self.scope.deadline = float("inf")

    def resume(self) -> None:
        self.scope.deadline = anyio.current_time() + self._left
