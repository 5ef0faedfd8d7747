"""SourceStatus: whether a source that depends on a connection works, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STILL_STARTING = "it is still starting"
"""The reason of a source that has not connected yet."""


class SourceState(StrEnum):
    """The state of a source.

    STARTING: the first attempt to connect is being made. READY: everything is available. DEGRADED: some of it is not,
    or the connection was lost and is being restored. BROKEN: the last attempts to connect have failed.
    """

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """The state of a source.

    Attributes:
        since: When the state began, in seconds since 1970.
        reason: Why the source is not ready; empty if it is.
        failures: How many attempts to connect have failed, or have led to short connections only, one after the other.
        server: The name that the server reports; empty before the first connection.
        version: The version that the server reports.
    """

    state: SourceState
    since: float
    reason: str = ""
    failures: int = 0
    server: str = ""
    version: str = ""

    def describe_absence(self, name: str) -> str:
        """Return why calls to this source fail."""
        return f"The server '{name}' is not available: {self.reason}. Retry later."
