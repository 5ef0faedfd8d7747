"""Hold: what a running call has."""

from __future__ import annotations

from typing import Protocol


class Hold(Protocol):
    """Something that a running call has, and does without while a person is asked: its deadline, its place.

    `deadline` is on the event loop's clock, in seconds; infinite for what is none, and while it is paused.
    """

    @property
    def deadline(self) -> float:
        """When the call has to end."""
        ...

    def pause(self) -> None:
        """Give it back."""
        ...

    def resume(self) -> None:
        """Have it again, without waiting: the call may be being cancelled."""
        ...
