"""UnusableSource: replaces a source whose settings have a problem, so that the others are served."""

from __future__ import annotations

import time

from mcp_bridge._contracts.extension import Publish
from mcp_bridge._contracts.offer import Offer
from mcp_bridge._contracts.source_status import SourceState, SourceStatus


class UnusableSource:
    """A source that publishes nothing but the problem of its settings."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.status = SourceStatus(state=SourceState.BROKEN, since=time.time(), reason=problem)

    async def wait_for_attempt(self) -> None:
        """Return at once: nothing is attempted."""

    async def run(self, publish: Publish) -> None:
        """Publish the problem."""
        publish(Offer(problems=self.status.reason.splitlines()))
