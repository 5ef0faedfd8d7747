"""Access control: checks Host, Origin and bearer token before anything else.

Host and Origin stop web pages from reaching a server on their reader's machine (MCP, transports, "Security Warning").
The SDK checks them only for Streamable HTTP.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_types import INVALID_REQUEST
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATHS = ("/health",)
"""Paths that need no token; without one they disclose nothing."""

SINGLE_HEADERS = (
    *(b"host", b"origin", b"authorization", b"content-type", b"content-encoding", b"transfer-encoding"),
    *(b"mcp-session-id", b"last-event-id"),
)
"""Headers that may occur once (RFC 9112, 3.2): of two, a proxy in front could have checked the other one."""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What is allowed: host names, origins besides those of the hosts, and the token (None: no token is required)."""

    hosts: frozenset[str] = LOOPBACK
    origins: frozenset[str] = frozenset()
    token: str | None = None

    @classmethod
    def for_host(
        cls, host: str, *, hosts: Iterable[str] = (), origins: Iterable[str] = (), token: str | None = None
    ) -> Access:
        """Return the access to a server that listens on `host`: its name, loopback names, and those given."""
        names = {name.lower().strip("[]") for name in (host, *hosts)}
        allowed = frozenset(origin.lower().rstrip("/") for origin in origins)  # browsers send them in lower case
        return cls(hosts=LOOPBACK | names, origins=allowed, token=token)

    def is_authorized(self, authorization: bytes) -> bool:
        if self.token is None:
            return True
        scheme, _, token = authorization.partition(b" ")  # RFC 9110, 11.1: the scheme is case-insensitive
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token.encode())


class AccessMiddleware:
    """ASGI middleware that rejects requests with a hint what to do.

    It responds 400 (duplicate header), 415 (encoded body), 421 (Host), 403 (Origin) or 401 (token).
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = _trim_headers(scope)
            if (refusal := self._find_rejection(scope)) is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_rejection(self, scope: Scope) -> Response | None:
        given = dict.fromkeys(SINGLE_HEADERS, b"")
        for name, value in scope["headers"]:
            if name in given:
                if given[name]:
                    return make_rejection(400, f"The header {name.decode()} occurs twice.")
                given[name] = value
        if given[b"content-encoding"] or given[b"transfer-encoding"].lower() not in (b"", b"chunked"):
            return make_rejection(
                415, "Encoded bodies are not supported. Send no Content-Encoding.", {"Accept-Encoding": "identity"}
            )
        origin, authorization = given[b"origin"], given[b"authorization"]
        if not self._is_known_host(f"//{given[b'host'].decode('latin-1')}"):
            return make_rejection(421, "Host is not allowed. Add its name to http.allowed_hosts in the settings.")
        if origin and not self._is_trusted_origin(origin.decode("latin-1")):
            return make_rejection(403, "Origin is not allowed. Add it to http.allowed_origins in the settings.")
        if self._access.is_authorized(authorization) or scope["path"].rstrip("/").endswith(OPEN_PATHS):
            return None
        return make_rejection(
            401, "A valid bearer token is required.", {"WWW-Authenticate": 'Bearer realm="mcp-bridge"'}
        )

    def _is_known_host(self, address: str) -> bool:
        try:
            name = urlsplit(address).hostname
        except ValueError:
            return False
        return name is not None and name in self._access.hosts

    def _is_trusted_origin(self, origin: str) -> bool:
        return origin in self._access.origins or (
            origin.startswith(("http://", "https://")) and self._is_known_host(origin)
        )


def _trim_headers(scope: Scope) -> Scope:
    """Return the scope with trimmed header values (RFC 9110, 5.5): httptools leaves the blanks at their end."""
    headers = scope["headers"]
    if any(value[-1:] in (b" ", b"\t") or value[:1] in (b" ", b"\t") for _, value in headers):
        return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in headers]}
    return scope


def make_rejection(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status, headers=headers)
