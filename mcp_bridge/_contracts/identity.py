"""Identity: how an endpoint presents the server, and the limits of its lists and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from mcp_bridge._contracts.listing import LIST_ALL, ToolListing
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._version import __version__


class Identity(NamedTuple):
    """The presentation of a server to clients, and the limits of its lists and results.

    Attributes:
        page: The maximum number of entries in one page of a list.
        result: The maximum number of characters of text in the result of a tool.
        content: The maximum number of bytes of everything else in the result.
        ttl_ms: The milliseconds for which clients of the stateless era may cache a list.
        private: Whether only the client that asked may use a cached list (MCP 2026-07-28, server/utilities/caching).
        listing: What tools/list contains.
        has_skills: Whether clients can list skills (SEP-2640).
        is_open: Whether a source may still declare a `ServerInfo`, so that clients wait for the sources.
    """

    name: str = "mcp-bridge"
    version: str = __version__
    title: str | None = None
    instructions: str | None = None
    page: int = 250
    result: int = 768 * 1024
    content: int = 16 * 1024 * 1024
    ttl_ms: int = 60_000
    private: bool = False
    listing: ToolListing = LIST_ALL
    has_skills: bool = False
    is_open: bool = False
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Mapping[str, Any]] | None = None

    def with_info(self, info: ServerInfo) -> Identity:
        """Return a copy with the values that `info` sets."""
        changes: dict[str, Any] = {}
        for field in fields(info):
            value = getattr(info, field.name)
            if field.name != "lifespan" and value is not None:
                changes[field.name] = value
        return self._replace(**changes)
