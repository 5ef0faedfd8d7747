"""ServerInfo: what a Python file, or a program that embeds the server, says about the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""Returns an async context manager that is entered before the first call and left after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What a server says about itself, and what runs around it. A Python file declares it at module level.

    Attributes:
        name: The name that clients see.
        version: The version of the server.
        title: The name for users.
        instructions: How a model should use the server.
        lifespan: A function that returns an async context manager, such as one decorated with
            `contextlib.asynccontextmanager`. Its value is `ctx.lifespan`.
    """

    name: str | None = None
    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    lifespan: Lifespan | None = None
