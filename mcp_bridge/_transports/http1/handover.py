"""Connections that other processes can continue, between two requests or before the response to a request."""

from __future__ import annotations

import asyncio
from typing import cast

from mcp_bridge._transports.http1.asgi import Scope
from mcp_bridge._transports.http1.connection import ConnectionOwner, HttpConnection

CONNECTION = "mcp_bridge.connection"
"""The key of the connection in the scope of a request."""
_REPLACED = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""The headers that describe how the body was sent. It is handed over as a whole."""


class HandoverConnection(HttpConnection):
    """A connection that another process can continue. `received` was read from the client by an earlier process."""

    def __init__(self, pool: ConnectionOwner, received: bytes = b"") -> None:
        super().__init__(pool)
        self._received = received
        self._common_scope[CONNECTION] = self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        data, self._received = self._received, b""
        if data:
            self.data_received(data)

    @property
    def descriptor(self) -> int:
        return cast("int", self.transport.get_extra_info("socket").fileno())

    def can_leave(self, requests: int) -> bool:
        """Return whether another process can continue, with this number of complete requests and nothing else.

        It cannot if the client has sent another request before the response, or has not read the responses so far.
        """
        return (
            not self.transport.is_closing()
            and len(self._exchanges) == requests
            and not self._is_receiving
            and not self._is_rejected
            and not self.transport.get_write_buffer_size()
        )

    def leave(self) -> None:
        """Close this process's side of the connection, which another process has received."""
        self.transport.abort()


def format_request(scope: Scope, body: bytes, *, is_last: bool = False) -> bytes:
    """Return the bytes of a request with its body. If it `is_last`, the response closes the connection."""
    target = scope["raw_path"]
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    lines = [b"%b %b HTTP/%b" % (scope["method"].encode(), target, scope["http_version"].encode())]
    for name, value in scope["headers"]:
        if name not in _REPLACED and not (is_last and name == b"connection"):
            lines.append(b"%b: %b" % (name, value))
    if is_last:
        lines.append(b"connection: close")
    if body:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])
