"""State: settings of calls that wait for answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Settings of calls that wait for answers.

    >>> State(keys=["a secret of at least thirty-two bytes"], ttl=120).suspended
    256

    Attributes:
        keys: Secrets of at least 32 bytes. They seal the state of a call while the client carries it. The first key
            seals and every key opens, so keys can be rotated while serving. Instances with the same keys continue each
            other's calls. Without keys, this process generates one.
        ttl: The maximum number of seconds that a question waits for its answer.
        suspended: The maximum number of waiting calls.
        store: Records used states; None for the memory of this process.
        tasks: The options of calls that continue as tasks; None for no tasks.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    suspended: int = 256
    store: Store | None = None
    tasks: TaskOptions | None = None
