"""The error codes of JSON-RPC 2.0 and of MCP, and the exception for an error response."""

from __future__ import annotations

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000
"""The server shuts down, or the connection has ended before the response (as in the official TypeScript SDK)."""
REQUEST_TIMEOUT = -32001
"""No response has arrived in time (as in the official TypeScript SDK)."""
HEADER_MISMATCH = -32020
"""An HTTP header and the body of a request disagree (2026-07-28, basic/transports)."""
MISSING_CAPABILITY = -32021
"""MissingRequiredClientCapability (2026-07-28, basic, "Error codes")."""
UNSUPPORTED_VERSION = -32022
"""UnsupportedProtocolVersion (2026-07-28, basic/lifecycle)."""


class RpcError(Exception):
    """An error response (JSON-RPC 2.0, section 5.1).

    Code that serves a request raises it, and the method that sends a request raises it for an error response. `data` is
    any JSON value, or None for an error without data.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """Return the `error` member of a response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error
