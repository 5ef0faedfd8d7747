"""Shared parts of all responses: caching hints, pages, and errors of methods whose results cannot carry one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.errors import InvalidArguments, MissingCapability, PromptNotFound, ResourceNotFound
from mcp_bridge.contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.server.pages import BadCursor
from mcp_bridge.wire.outcomes import REQUIRED
from mcp_bridge.wire.protocol_versions import STATELESS, has_feature
from mcp_bridge.wire.results import COMPLETE

READY_PATIENCE = 20.0
"""Seconds that a request waits for sources that are still starting; then it is served from what has been published."""
ECHOED = 1000
"""The most characters of a client's own text that an error repeats."""

_CLIENT_ERRORS = (InvalidArguments.code, ResourceNotFound.code, PromptNotFound.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """How an endpoint responds. `ttl_ms` and `scope` are the caching hints of the stateless era.

    `ready` is set once the sources have published; None means that they have.
    """

    ttl_ms: int
    scope: str
    ready: anyio.Event | None = None

    async def wait_for_sources(self) -> None:
        """Wait until the sources have published, at most `READY_PATIENCE` seconds."""
        if self.ready is not None and not self.ready.is_set():
            with anyio.move_on_after(READY_PATIENCE):
                await self.ready.wait()

    def render_page(
        self, get_page: Callable[[str, str | None], Mapping[str, Any]], version: str, cursor: str | None
    ) -> dict[str, Any]:
        """Return one page of a list as a result. Raises MCPError for an invalid cursor."""
        try:
            return with_cache_hints(get_page(version, cursor), version, ttl_ms=self.ttl_ms, scope=self.scope)
        except BadCursor as error:
            message = "Invalid cursor. Start again without a cursor."
            raise MCPError(INVALID_PARAMS, message, {"cursor": truncate_text(cursor or "")}) from error


def truncate_text(text: str) -> str:
    """Truncate a client's text for an error, so that a name or URI of megabytes is not sent back twice."""
    return text if len(text) <= ECHOED else f"{text[:ECHOED]}... ({len(text)} characters)"


def with_cache_hints(result: Mapping[str, Any], version: str, *, ttl_ms: int, scope: str) -> dict[str, Any]:
    """Return a result with caching hints if the version has them (server/utilities/caching)."""
    if not has_feature(version, STATELESS):
        return dict(result)
    return {**result, **COMPLETE, "ttlMs": ttl_ms, "cacheScope": scope}


def with_result_type(result: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a complete result, marked as such if the version requires it."""
    return {**result, **COMPLETE} if has_feature(version, STATELESS) else dict(result)


def raise_missing_capability(result: ToolResult, version: str) -> None:
    """Raise the stateless era's error if the client lacks a capability; the handshake era has no such error."""
    if result.code == MissingCapability.code and has_feature(version, STATELESS) and REQUIRED in (result.meta or {}):
        required = (result.meta or {})[REQUIRED]
        raise MCPError(MISSING_CAPABILITY, result.error_text, {REQUIRED: required})


def check_success(result: ToolResult, version: str, **place: str) -> ToolResult:
    """Return the result of a resource or prompt, or raise MCPError if it failed; `place` names the entry."""
    if not result.is_error:
        return result
    raise_missing_capability(result, version)
    code = INVALID_PARAMS if result.code in _CLIENT_ERRORS else INTERNAL_ERROR
    message = result.error_text or "The call failed without an error message."
    raise MCPError(code, message, {**place, "code": result.code})
