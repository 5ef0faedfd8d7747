"""The protocol of limits that a call holds."""

from __future__ import annotations

from typing import Protocol


class Hold(Protocol):
    """A deadline, or a slot of a limiter, that a call holds and releases while it waits for the user."""

    @property
    def deadline(self) -> float:
        """When the call must end, in seconds of the event loop's clock; infinite without a deadline."""

    def pause(self) -> None:
        """Release it until `resume`."""

    def resume(self) -> None:
        """Take it back without waiting, because the call may be in cancellation."""
