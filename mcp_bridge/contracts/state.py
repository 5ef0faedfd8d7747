"""How calls that wait for answers are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge.contracts.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How calls that wait for answers are kept.

    Attributes:
        keys: Secrets of at least 32 bytes that seal the state which clients carry. The first one seals and all of them
            open, so keys can be rotated while serving. Instances with the same keys continue each other's calls. Empty
            for a key of this process.
        ttl: How many seconds a question waits for its answer.
        parked: How many calls may wait at once.
        store: Remembers which states have been used; None for the memory of this process.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    parked: int = 256
    store: Store | None = None
