"""Answers: what every method's result has in common, and how failures reach who reads no tool result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.errors import InvalidArguments, MissingCapability, PromptNotFound, ResourceNotFound
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.server.paging import BadCursor
from mcp_bridge.wire.outcomes import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY, REQUIRED
from mcp_bridge.wire.results import COMPLETE
from mcp_bridge.wire.versions import STATELESS, carries

READY_PATIENCE = 20.0
"""Seconds that a first request waits for sources that are still starting; then it sees what there is."""
ECHOED = 1000
"""The most characters of a client's own text that an error repeats."""

_CLIENTS_FAULT = (InvalidArguments.code, ResourceNotFound.code, PromptNotFound.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How an endpoint answers: `ttl_ms` and `scope` are the caching hints of the stateless era.

    `ready` is set once the sources have published (None: they have).
    """

    ttl_ms: int
    scope: str
    ready: anyio.Event | None = None

    async def started(self) -> None:
        """Wait for the sources, but not for long."""
        if self.ready is not None and not self.ready.is_set():
            with anyio.move_on_after(READY_PATIENCE):
                await self.ready.wait()

    def page(
        self, page: Callable[[str, str | None], Mapping[str, Any]], version: str, cursor: str | None
    ) -> dict[str, Any]:
        """One page of a list. Raises MCPError for a cursor that nobody here made."""
        try:
            return cacheable(page(version, cursor), version, ttl_ms=self.ttl_ms, scope=self.scope)
        except BadCursor as error:
            raise MCPError(
                INVALID_PARAMS, "Invalid cursor: start again without one", {"cursor": shorten(cursor or "")}
            ) from error


def shorten(text: str) -> str:
    """A client's text as an error repeats it: a name or URI of megabytes is not sent back twice."""
    return text if len(text) <= ECHOED else f"{text[:ECHOED]}... ({len(text)} characters)"


def cacheable(result: Mapping[str, Any], version: str, *, ttl_ms: int, scope: str) -> dict[str, Any]:
    """A result with caching hints, where the version has them (server/utilities/caching)."""
    if not carries(version, STATELESS):
        return dict(result)
    return {**result, **COMPLETE, "ttlMs": ttl_ms, "cacheScope": scope}


def complete(result: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A finished result, said to be one where the version wants that."""
    return {**result, **COMPLETE} if carries(version, STATELESS) else dict(result)


def refuse_uncapable(result: ToolResult, version: str) -> None:
    """Raise the stateless era's error for a client that cannot be asked; the handshake era has none for that."""
    if result.code == MissingCapability.code and carries(version, STATELESS) and REQUIRED in (result.meta or {}):
        required = (result.meta or {})[REQUIRED]
        raise MCPError(MISSING_CAPABILITY, result.error_text, {REQUIRED: required})


def succeeded(result: ToolResult, version: str, **place: str) -> ToolResult:
    """The result of a resource or a prompt; `place` says of which. Raises MCPError when it failed."""
    if not result.is_error:
        return result
    refuse_uncapable(result, version)
    code = INVALID_PARAMS if result.code in _CLIENTS_FAULT else INTERNAL_ERROR
    raise MCPError(code, result.error_text or "It failed and did not say why.", {**place, "code": result.code})
