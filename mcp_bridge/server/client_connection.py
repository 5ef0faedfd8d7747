"""A client's connection: its first `initialize` or stateless request decides about its era."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_bridge.contracts.jsonrpc import INVALID_REQUEST, UNSUPPORTED_VERSION, RpcError
from mcp_bridge.peer.connection import PeerConnection
from mcp_bridge.peer.incoming import IncomingRequest, Message, MessageStream
from mcp_bridge.peer.request_counter import RequestCounter
from mcp_bridge.runtime.tasks import TaskOwner
from mcp_bridge.server.requests import Session, has_envelope
from mcp_bridge.server.responses import truncate_text
from mcp_bridge.wire.protocol_versions import STATELESS, STATELESS_VERSIONS

if TYPE_CHECKING:
    from mcp_bridge.server.endpoint import Endpoint


class ClientConnection:
    """Serves one client over a connection of two directions. The transport calls `receive` and, at the end, `close`.

    `stream` carries messages that belong to no request. Every request has this `principal`, `client` and `transport`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        stream: MessageStream,
        tasks: TaskOwner,
        counter: RequestCounter | None = None,
        *,
        principal: str | None = None,
        client: str | None = None,
        transport: str = "",
    ) -> None:
        self._principal, self._client, self._transport = principal, client, transport
        self._endpoint = endpoint
        self._is_stateless: bool | None = None
        self.peer = PeerConnection(self, stream, tasks, counter)
        self.session = Session(self.peer, endpoint.redactor, transport=transport, principal=principal)

    def receive(self, message: Message, stream: MessageStream | None = None) -> None:
        """Handle a valid JSON-RPC message. `stream` carries what belongs to a request, if that is not the usual one."""
        self.peer.receive(message, stream)

    def close(self) -> None:
        """End the connection: cancel the client's requests and the session."""
        self.peer.close()
        self.session.end()
        self._endpoint.record_session(self.session)

    def handle_request(self, request: IncomingRequest) -> Any:
        """Serve a request in the era of the connection (2026-07-28, basic/lifecycle)."""
        request.principal, request.client, request.transport = self._principal, self._client, self._transport
        if self._is_stateless is None:
            if request.method == "initialize":
                self._is_stateless = False
            elif has_envelope(request.params):
                self._is_stateless = True
        if not self._is_stateless:
            if has_envelope(request.params) and request.method != "initialize":
                message = f"this connection has begun with a handshake; requests of {STATELESS} need another one"
                raise RpcError(INVALID_REQUEST, f"Invalid Request: {message}")
            return self._endpoint.handle_handshake(request, self.session)
        if request.method == "initialize":
            requested = request.params.get("protocolVersion")
            data = {"supported": list(STATELESS_VERSIONS)}
            if isinstance(requested, str):
                data["requested"] = truncate_text(requested)  # type: ignore[assignment]
            message = f"this connection has begun with requests of {STATELESS}, which has no initialize"
            raise RpcError(UNSUPPORTED_VERSION, message, data)
        return self._endpoint.handle_stateless(request)

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification; only the handshake era has any besides those of requests in flight."""
        if not self._is_stateless:
            self._endpoint.handle_notification(method, params, self.session)
