"""The methods initialize, server/discover and logging/setLevel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._protocol.wire.meta_keys import SERVER_INFO
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, HANDSHAKE_VERSIONS, STATELESS_VERSIONS
from mcp_bridge._server.params import is_larger
from mcp_bridge._server.requests import Request, Session, read_client_info
from mcp_bridge._server.responses import Responses

MAX_CAPABILITIES = 64 * 1024
"""The maximum number of bytes of a client's capabilities, which are kept as long as its session."""
CAPABILITIES: Mapping[str, Any] = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
"""The capabilities that every server declares, whatever its sources have published."""


class Lifecycle:
    """The methods that describe the server and begin sessions.

    Attributes:
        on_session: Called with each new session.
        sessions: The sessions that may still be open.
    """

    def __init__(
        self,
        identity: Identity,
        responses: Responses,
        *,
        extensions: Mapping[str, Any],
        stateless_extensions: Mapping[str, Any],
    ) -> None:
        self._responses = responses
        self._capabilities = _declare(extensions)
        self._stateless_capabilities = _declare({**extensions, **stateless_extensions})
        self._is_open = identity.is_open
        self.on_session: Callable[[Session], None] | None = None
        self.sessions = WeakSet[Session]()

    def initialize(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve initialize: agree upon a version (2025-11-25, basic/lifecycle).

        The session is initialized at once, so requests the client sends before it has the result are served. Raises
        RpcError for capabilities that are too large to keep.
        """
        session = request.session
        version = params["protocolVersion"]
        assert session is not None
        if is_larger(params["capabilities"], MAX_CAPABILITIES):
            raise RpcError(INVALID_PARAMS, f"The capabilities of a client may have {MAX_CAPABILITIES} bytes")
        session.version = version if version in HANDSHAKE_VERSIONS else HANDSHAKE
        session.capabilities = params["capabilities"]
        client = session.client
        session.client = read_client_info(params.get("clientInfo"), session.version, client.transport, client.session)
        self.sessions.add(session)
        if self.on_session is not None:
            self.on_session(session)
        return self._when_described(self._describe_session, session.version)

    def discover(self, request: Request, params: Mapping[str, Any]) -> Any:
        """Serve server/discover (2026-07-28, server/discover)."""
        return self._when_described(self._discover, request)

    def _when_described(self, serve: Callable[..., Any], *args: Any) -> Any:
        """Serve the description, after the sources have published if they may still change it."""
        return self._responses.when_ready(serve, *args) if self._is_open else serve(*args)

    def _describe_session(self, version: str) -> dict[str, Any]:
        return {
            "protocolVersion": version,
            "capabilities": self._capabilities,
            "serverInfo": self._responses.render_server_info(version),
            **self._responses.instructions,
        }

    def _discover(self, request: Request) -> dict[str, Any]:
        instructions = self._responses.instructions
        capabilities = self._stateless_capabilities
        result = {"supportedVersions": list(STATELESS_VERSIONS), "capabilities": capabilities, **instructions}
        scope = self._responses.choose_scope(request)
        response = self._responses.with_cache_hints(result, request.version, scope=scope)
        return response | {"_meta": {SERVER_INFO: self._responses.render_server_info(request.version)}}


def _declare(extensions: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**CAPABILITIES, "extensions": extensions} if extensions else CAPABILITIES


def set_log_level(request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
    """Serve logging/setLevel: send this client log messages of this and more severe levels from now on."""
    assert request.session is not None
    request.session.log_level = params["level"]
    return {}
