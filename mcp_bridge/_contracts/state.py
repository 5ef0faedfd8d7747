"""Settings of calls that wait for answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Settings of calls that wait for answers.

    Attributes:
        keys: Secrets of at least 32 bytes that seal the state which clients carry. The first key seals and every key
            opens, so keys can be rotated while serving. Instances with the same keys continue each other's calls.
            Without keys, this process generates one.
        ttl: The most seconds that a question waits for its answer.
        suspended: The most calls that may wait at once.
        store: Records which states have been used; None for the memory of this process.
        tasks: Which calls may continue as tasks; None for none.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    suspended: int = 256
    store: Store | None = None
    tasks: TaskOptions | None = None
