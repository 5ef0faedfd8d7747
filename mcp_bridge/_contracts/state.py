"""State: settings of `serve` and `asgi_app` for calls with questions, and for tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Settings for calls that wait for answers, and for tasks.

    >>> State(keys=["a secret of at least thirty-two bytes"], ttl=120).suspended
    256

    Attributes:
        keys: Secrets of at least 32 bytes. They encrypt the state of a call while it passes through the client. The
            first key encrypts and every key decrypts, so keys can be replaced while instances serve. Instances with the
            same keys continue each other's calls. Without keys, this process generates one.
        ttl: The maximum number of seconds that a question waits for its answer.
        suspended: The maximum number of waiting calls.
        store: Records which states were used, because each is valid once; None for the memory of this process.
        tasks: The options of calls that continue as tasks; None for no tasks.
        prefix: The text before each encrypted state, by which a router finds the instance that waits for it. Those of
            all instances have the same length.
        name: The name that all instances share in their states and their keys in Redis; None for the name that clients
            see.
    """

    keys: Sequence[str] = ()
    ttl: float = 600.0
    suspended: int = 256
    store: Store | None = None
    tasks: TaskOptions | None = None
    prefix: str = ""
    name: str | None = None
