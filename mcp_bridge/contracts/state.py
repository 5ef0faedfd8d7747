"""Settings of calls that wait for answers."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bridge.contracts.record import record
from mcp_bridge.contracts.store import Store


@record
class State:
    """Settings of calls that wait for answers.

    Attributes:
        keys: Secrets of at least 32 bytes that seal the state which clients carry. The first key seals and every key
            opens, so keys can be rotated while serving. Instances with the same keys continue each other's calls.
            Without keys, this process generates one.
        ttl: The most seconds that a question waits for its answer.
        parked: The most calls that may wait at once.
        store: Records which states have been used; None for the memory of this process.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    parked: int = 256
    store: Store | None = None
