"""Identity: what clients are told about a server."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bridge._version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What clients are told about this server, and how its lists and answers are cut and kept.

    `page` is the most tools in one tools/list answer, `result` the most characters of text in one answer of a tool,
    `content` the most bytes of all else in it.
    `ttl_ms` is how many milliseconds clients of the stateless era may keep a list, `private` whether it is for whoever
    asked alone (MCP 2026-07-28, server/utilities/caching).
    """

    name: str = "mcp-bridge"
    version: str = __version__
    title: str | None = None
    instructions: str | None = None
    page: int = 250
    result: int = 1024 * 1024
    content: int = 16 * 1024 * 1024
    ttl_ms: int = 60_000
    private: bool = False
