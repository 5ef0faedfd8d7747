"""Responses: the common parts of all responses.

It adds caching hints and the name of the server, renders pages of lists, waits for starting sources, and turns failed
results of resources and prompts into errors, because their methods have no field for a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import anyio
import orjson

from mcp_bridge._contracts.errors import InvalidArguments, MissingCapability, PromptNotFound, ResourceNotFound
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY, RpcError
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.wire.meta_keys import SERVER_INFO
from mcp_bridge._protocol.wire.outcomes import REQUIRED
from mcp_bridge._protocol.wire.protocol_versions import ICONS, STATELESS, has_feature
from mcp_bridge._protocol.wire.tools import COMPLETE
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._server.pages import BadCursor, Pages
from mcp_bridge._server.redaction import RequestError, redact_around
from mcp_bridge._server.requests import Request, truncate_text

READY_TIMEOUT = 20.0
"""Seconds that a request waits for sources that are starting. After that, it is served with what has been published."""
_CLIENT_ERRORS = (InvalidArguments.code, ResourceNotFound.code, PromptNotFound.code)
"""The codes of errors that the client has caused."""


class Responses:
    """The shared parts of an endpoint's responses.

    `ready` is set once the sources have published. None: they have already. `report_listing` is called for each page of
    a list.

    Attributes:
        redactor: Redacts secrets.
        server_info: The name, title and version of the server.
        instructions: The member `instructions` of a description, or an empty dict.
    """

    def __init__(
        self,
        identity: Identity,
        redactor: Redactor,
        *,
        ready: anyio.Event | None = None,
        report_listing: Callable[[], None] = lambda: None,
    ) -> None:
        self._report_listing = report_listing
        self._ttl_ms = identity.ttl_ms
        self._scope = "private" if identity.private else "public"
        self._encoders = {scope: partial(self._encode_page, scope) for scope in ("public", "private")}
        self.redactor = redactor
        self._ready = ready
        self.describe_server(identity)

    def describe_server(self, identity: Identity) -> None:
        """Replace how the server presents itself."""
        self.server_info = {"name": identity.name}
        if identity.title is not None:
            self.server_info["title"] = identity.title
        self.server_info["version"] = identity.version
        details: dict[str, Any] = {
            "description": identity.description,
            "websiteUrl": identity.website_url,
            "icons": [dict(icon) for icon in identity.icons or ()] or None,
        }
        self._details = {name: value for name, value in details.items() if value is not None}
        self.instructions = {"instructions": identity.instructions} if identity.instructions is not None else {}

    def render_server_info(self, version: str) -> dict[str, Any]:
        """Return the server's `Implementation`, from 2025-11-25 with its icons, URL and description.

        Only descriptions of the server use it. Other results have `server_info`, because icons may be large.
        """
        return {**self.server_info, **self._details} if has_feature(version, ICONS) else self.server_info

    @property
    def is_waiting(self) -> bool:
        """Whether the sources have not published yet."""
        return self._ready is not None and not self._ready.is_set()

    def when_ready(self, serve: Callable[..., Any], *args: Any) -> Any:
        """Return `serve(*args)`, or a coroutine that waits for the sources first, at most `READY_TIMEOUT` seconds."""
        if self.is_waiting:
            return self._serve_later(serve, *args)
        return serve(*args)

    async def wait_for_sources(self) -> None:
        """Wait until the sources have published, at most `READY_TIMEOUT` seconds."""
        if self.is_waiting and self._ready is not None:
            with anyio.move_on_after(READY_TIMEOUT):
                await self._ready.wait()

    async def _serve_later(self, serve: Callable[..., Any], *args: Any) -> Any:
        await self.wait_for_sources()
        return serve(*args)

    def render_page(self, pages: Pages, request: Request, cursor: str | None) -> orjson.Fragment:
        """Return one page of a list as a result in JSON, from the cache. Raises RequestError for an invalid cursor."""
        self._report_listing()
        scope = self.choose_scope(request)
        try:
            return pages.get_encoded(request.version, cursor, self.redactor.version, self._encoders[scope], scope)
        except BadCursor as error:
            message = "Invalid cursor. Start again without a cursor."
            raise RequestError(INVALID_PARAMS, message, {"cursor": truncate_text(cursor or "")}) from error

    def choose_scope(self, request: Request) -> str:
        """Return the cache scope of a list: private if the client is authenticated or the identity says so."""
        return self._scope if request.incoming.principal is None else "private"

    def _encode_page(self, scope: str, page: Mapping[str, Any], version: str) -> orjson.Fragment:
        result = self.with_cache_hints(page, version, scope=scope)
        return orjson.Fragment(dump_json(self.redactor.redact_value(result)))

    def with_cache_hints(
        self, result: Mapping[str, Any], version: str, *, ttl_ms: int | None = None, scope: str = ""
    ) -> dict[str, Any]:
        """Return a complete result with caching hints if the version has them (server/utilities/caching)."""
        if not has_feature(version, STATELESS):
            return dict(result)
        hints = {"ttlMs": self._ttl_ms if ttl_ms is None else ttl_ms, "cacheScope": scope or self._scope}
        return self.complete_result({**result, **hints}, version)

    def complete_result(self, result: Mapping[str, Any], version: str) -> dict[str, Any]:
        """Return a complete result with the required fields of the version: `resultType` and the server's name."""
        if not has_feature(version, STATELESS):
            return dict(result)
        return self.add_server_info({**result, **COMPLETE})

    def add_server_info(self, result: dict[str, Any]) -> dict[str, Any]:
        """Add the name of this server to a result of the stateless era (2026-07-28, basic, "_meta")."""
        result["_meta"] = {**(result.get("_meta") or {}), SERVER_INFO: self.server_info}
        return result

    def check_success(self, result: ToolResult, version: str, *, key: Literal["name", "uri"], value: str) -> ToolResult:
        """Return the result of a resource or prompt, or raise RpcError if it failed.

        `value` is the name or URI the client has sent. The data of the error has it under `key`.
        """
        if not result.is_error:
            return result
        raise_missing_capability(result, version)
        code = INVALID_PARAMS if result.code in _CLIENT_ERRORS else INTERNAL_ERROR
        message = result.error_text or "The call failed without an error message."
        reason = self.redactor.redact_value(result.code)
        raise RequestError(code, redact_around(message, value, self.redactor), {key: value, "code": reason})


def raise_missing_capability(result: ToolResult, version: str) -> None:
    """Raise RpcError in the stateless era if the client lacks a capability. The handshake era has no such error."""
    if result.code == MissingCapability.code and has_feature(version, STATELESS) and REQUIRED in (result.meta or {}):
        required = (result.meta or {})[REQUIRED]
        raise RpcError(MISSING_CAPABILITY, result.error_text, {REQUIRED: required})
