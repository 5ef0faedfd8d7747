"""ServerInfo: how a server presents itself, as its Python file or an embedding program declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

MAX_INSTRUCTIONS = 16 * 1024
"""The maximum number of characters of the instructions of several sources together."""
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""Returns an async context manager that is entered before the first call and exited after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The presentation of a server, and its lifespan. A Python file declares it at module level.

    >>> info = ServerInfo(name="shop", title="The shop", instructions="Search before you order.")

    Attributes:
        name: The name for clients.
        version: The version of the server.
        title: The name for users.
        instructions: Instructions for the model.
        description: A description for users.
        website_url: The address of its website.
        icons: Icons of the server, in the form of MCP.
        lifespan: A function that returns an async context manager, such as one decorated with
            `contextlib.asynccontextmanager`. Its value is `ctx.lifespan`.
    """

    name: str | None = None
    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Mapping[str, Any]] | None = None
    lifespan: Lifespan | None = None


def join_instructions(texts: Sequence[str]) -> str | None:
    """Join the instructions of several sources. If they are too long together, each is truncated to an equal share."""
    if len(texts) > 1 and sum(map(len, texts)) > MAX_INSTRUCTIONS:
        share = MAX_INSTRUCTIONS // len(texts)
        texts = [_truncate(text, share) for text in texts]
    return "\n\n".join(texts) or None


def _truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} [truncated]"
