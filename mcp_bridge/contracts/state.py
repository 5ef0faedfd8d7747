"""State: how long and where a call may wait for answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge.contracts.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How questions are kept while nobody has answered them.

    `keys` seal what travels through clients, each a secret of at least 32 bytes: the first seals, all open, so keys
    can be changed while serving; instances that share them take up each other's questions. None: a key made for this
    process. `ttl` is how many seconds a question waits, `parked` how many calls may wait at once. `store` remembers
    which states were used; None: this process's memory.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    parked: int = 256
    store: Store | None = None
