"""Request and Session: the requests of clients, what clients declare about themselves, and the checks of versions.

A stateless client declares its version and capabilities in each request, in the envelope: the keys of `_meta` that
begin with `io.modelcontextprotocol/`. A handshake client declares them once, in `initialize`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, UNSUPPORTED_VERSION, RpcError
from mcp_bridge._contracts.log_levels import Level
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._protocol.peer.connection import PROGRESS, IncomingRequest, PeerConnection, RequestId, make_notification
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge._protocol.wire.protocol_versions import STATELESS_VERSIONS
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._server.redaction import echo

logger = logging.getLogger("mcp_bridge.server")

DEFAULT_LEVEL: Level = "info"
"""The log level of a handshake client that has not set one. The specification leaves the choice to the server."""
CONNECTION = "connection/"
"""The start of a session's key if the session is a connection."""
MAX_CLIENT_TEXT = 100
"""The maximum number of characters of a client's name, and of its version."""
ECHOED = 1000
"""The maximum number of characters of a client's own text that an error repeats."""


class Session:
    """The connection of a handshake client.

    Attributes:
        version: The negotiated protocol version; empty before `initialize`.
        principal: The authenticated client, or None.
        capabilities: The capabilities of the client.
        log_level: The least severe level of log messages for the client.
        key: A unique name.
        state_key: The key of the session state authors store for the client.
        began: The time at which it was opened, as a value of `time.perf_counter`.
        client: What the client has declared about itself in `initialize`.
        connection: Carries messages outside of requests.
    """

    def __init__(
        self,
        connection: PeerConnection,
        redactor: Redactor,
        *,
        transport: str = "",
        principal: str | None = None,
    ) -> None:
        self.version = ""
        self.principal = principal
        self.capabilities: Mapping[str, Any] = {}
        self.log_level: Level = DEFAULT_LEVEL
        self.key = os.urandom(16).hex()
        self.state_key = CONNECTION + self.key
        self.began = time.perf_counter()
        self.client = ClientInfo(transport=transport, session=self.key)
        self.connection = connection
        self._redactor = redactor
        self._callbacks: list[Callable[[], None]] = []
        self._is_ended = False

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification outside of any request."""
        self.connection.notify(method, self._redactor.redact_value(params))

    async def drain(self) -> None:
        """Wait while the client reads notifications more slowly than they are sent."""
        await self.connection.drain()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the session ends, or immediately if it has ended."""
        self._callbacks.append(callback)
        if self._is_ended:
            self.end()

    def end(self) -> None:
        """Run the callbacks, the latest first. Their errors are logged."""
        self._is_ended = True
        while self._callbacks:
            try:
                self._callbacks.pop()()
            except Exception:
                logger.exception("a callback at the end of a session failed")


class Request:
    """A request of a client.

    Attributes:
        version: The protocol version of the request.
        session: The session of a handshake client; None in the stateless era.
        capabilities: The declared capabilities of the client.
    """

    __slots__ = ("_redactor", "capabilities", "id", "incoming", "meta", "params", "session", "version")

    def __init__(
        self,
        incoming: IncomingRequest,
        redactor: Redactor,
        *,
        version: str,
        session: Session | None,
        capabilities: Mapping[str, Any],
    ) -> None:
        self.incoming = incoming
        self.id: RequestId = incoming.id
        self.params = incoming.params
        self.meta: Mapping[str, Any] = incoming.params.get("_meta") or {}
        self.version = version
        self.session = session
        self.capabilities = capabilities
        self._redactor = redactor

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification of this request. Waits while the client reads too slowly.

        After the end of the request, nothing is sent.
        """
        if self.incoming.is_done:
            return
        stream = self.incoming.stream
        stream.send(make_notification(method, self._redactor.redact_value(params)))
        await stream.drain()

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send a progress notification if the client gave a token (basic/utilities/progress)."""
        token = self.meta.get("progressToken")
        if token is None:
            return
        params: dict[str, Any] = {"progressToken": echo(token), "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify(PROGRESS, params)

    async def ask_client(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request of the server on this request's stream, and return its result. Raises RpcError."""
        assert self.session is not None
        params = self._redactor.redact_value(params)
        return await self.session.connection.request(method, params, stream=self.incoming.stream)


def read_client_info(declared: Any, version: str, transport: str = "", session: str = "") -> ClientInfo:
    """Return the declaration in `clientInfo` with truncated texts. Invalid values become empty."""
    texts = {"name": "", "version": ""}
    if isinstance(declared, dict):
        for key in texts:
            if isinstance(declared.get(key), str):
                texts[key] = declared[key][:MAX_CLIENT_TEXT]
    return ClientInfo(texts["name"], texts["version"], version, transport, session)


class ClientInfoReader:
    """Reads the declarations of stateless clients. One that equals the latest costs only a comparison."""

    def __init__(self) -> None:
        # Both values are replaced in one step, because other threads read them.
        self._latest: tuple[Any, ClientInfo] = (None, ClientInfo())

    def read_info(self, declared: Any, version: str, transport: str) -> ClientInfo:
        """Return the declaration in `clientInfo` as `read_client_info` does."""
        latest, info = self._latest
        if latest != (declared, version, transport):
            info = read_client_info(declared, version, transport)
            # A client may declare more, of any size, so the declaration itself is not kept. Most declare only this.
            usual_declaration = {"name": info.name, "version": info.version}
            self._latest = (usual_declaration, version, transport), info
        return info


def has_envelope(params: Mapping[str, Any]) -> bool:
    """Return whether a request is of the stateless era. Only such requests declare their version."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def read_version(params: Mapping[str, Any]) -> str:
    """Return the protocol version of a stateless request. Raises RpcError for an incomplete envelope."""
    meta = params.get("_meta")
    if isinstance(meta, dict):
        version = meta.get(PROTOCOL_VERSION)
        if isinstance(version, str) and CLIENT_CAPABILITIES in meta:
            return version
    raise RpcError(INVALID_PARAMS, f"Invalid parameters: params._meta {_describe_problem(meta)}")


def _describe_problem(meta: object) -> str:
    if not isinstance(meta, dict):
        return f"must be an object with the keys '{PROTOCOL_VERSION}' and '{CLIENT_CAPABILITIES}'"
    missing_keys = [repr(key) for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
    if missing_keys:
        return f"has no {' and no '.join(missing_keys)}"
    return f"has a '{PROTOCOL_VERSION}' that is not text"


def check_version(version: str) -> None:
    """Raise RpcError unless the server supports the version in the stateless era (basic/lifecycle)."""
    if version not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": truncate_text(version)}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def truncate_text(text: str) -> str:
    """Truncate a client's text for an error, so no error contains megabytes."""
    return text if len(text) <= ECHOED else f"{text[:ECHOED]}... ({len(text)} characters)"
