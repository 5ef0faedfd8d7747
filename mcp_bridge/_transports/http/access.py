"""AccessGuard: checks Host, Origin and bearer token of each request first, and responds to browsers (CORS).

Without the checks of Host and Origin, any web page that a user opens could use a server on the user's machine (MCP,
basic/transports, "Security Warning").
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from mcp_bridge._transports.http.protected_resource import METADATA_PATH
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, make_rejection
from mcp_bridge._transports.http1.asgi import read_host_name

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATHS = ("/health",)
"""The paths that need no token, in addition to the metadata. Without one, they disclose nothing about the server."""
SINGLE_HEADERS = frozenset(
    {b"host", b"origin", b"authorization", b"content-type", b"content-encoding", b"transfer-encoding"}
    | {b"mcp-session-id", b"last-event-id"}
)
"""The headers that may occur only once (RFC 9112, 3.2). A proxy in front of the server could have checked the other one
of two."""
_PREFLIGHT = b"access-control-request-method"
_METHODS = ("GET", "POST", "DELETE")
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is reachable only from this machine."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may use the server.

    Attributes:
        hosts: The accepted names in the header Host.
        origins: The accepted origins of web pages.
        authenticator: Finds the caller by the token. None requires no token.
    """

    hosts: frozenset[str] = LOOPBACK
    origins: frozenset[str] = frozenset()
    authenticator: Authenticator | None = None

    @classmethod
    def for_host(
        cls,
        host: str,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        token: str | None = None,
        authenticator: Authenticator | None = None,
    ) -> Access:
        """Return the access to a server that listens on `host`, also under the loopback names and `hosts`.

        `token` is short for an authenticator that accepts only this token.
        """
        if token is not None:
            authenticator = Authenticator(StaticTokens(token))
        names = {name.lower().strip("[]") for name in (host, *hosts)}
        # Browsers send origins in lower case.
        origin_set = frozenset(origin.lower().rstrip("/") for origin in origins)
        return cls(hosts=LOOPBACK | names, origins=origin_set, authenticator=authenticator)


class AccessGuard:
    """Rejects requests with a hint.

    The status is 400 (duplicate header), 415 (encoded body), 421 (Host), 403 (Origin, scope), 401 (token) or 503 (no
    keys to verify a token).
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_known_host = lru_cache(maxsize=64)(lambda address: read_host_name(address) in access.hosts)

    def check_access(self, request: HttpRequest) -> None:
        """Check a request. Raises HttpRejection if it is not allowed, and as the response to a preflight request."""
        headers = request.headers
        if self._access.origins and b"origin" in headers:
            self._share_with_origin(request)
        duplicates = request.repeated & SINGLE_HEADERS
        if duplicates:
            raise make_rejection(400, f"The header {min(duplicates).decode()} occurs twice.")
        transfer_encoding = headers.get(b"transfer-encoding", b"chunked").strip(b" \t").lower()
        if b"content-encoding" in headers or transfer_encoding != b"chunked":
            hint = "Encoded bodies are not supported. Send no Content-Encoding."
            raise make_rejection(415, hint, [(b"accept-encoding", b"identity")])
        if not self._is_known_host(headers.get(b"host", b"")):
            raise make_rejection(421, "Host is not allowed. Add its name to http.allowed_hosts in the settings.")
        origin = headers.get(b"origin")
        if origin and origin.strip(b" \t").decode("latin-1") not in self._access.origins:
            # The origin of the server's own web page is one of its host names.
            origin = origin.strip(b" \t")
            is_url = origin.startswith((b"http://", b"https://"))
            if not is_url or not self._is_known_host(origin.partition(b"//")[2]):
                raise make_rejection(403, "Origin is not allowed. Add it to http.allowed_origins in the settings.")

    async def authenticate(self, request: HttpRequest, *, is_open: bool = False) -> None:
        """Set the caller of a request. Raises HttpRejection without a valid token, unless the path needs none.

        No token is needed for OPEN_PATHS and the metadata, nor if the path `is_open`.
        """
        if self._access.authenticator is None:
            return
        try:
            request.caller = await self._access.authenticator.authenticate(request)
        except HttpRejection:
            path = request.scope["path"].removeprefix(request.scope.get("root_path", "")).rstrip("/")
            if not is_open and path not in OPEN_PATHS and not path.startswith(METADATA_PATH):
                raise

    def _share_with_origin(self, request: HttpRequest) -> None:
        """Allow web pages of the accepted origins to read the response (CORS). Raises HttpRejection for a preflight."""
        origin = request.headers[b"origin"].strip(b" \t")
        is_preflight = request.method == "OPTIONS" and _PREFLIGHT in request.headers
        if origin.decode("latin-1") not in self._access.origins:
            if is_preflight:
                raise make_rejection(400, "Origin is not allowed.", [(b"vary", b"Origin")])
            return
        request.common_headers = [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        ]
        if not is_preflight:
            return
        if request.get_header(_PREFLIGHT) not in _METHODS:
            raise make_rejection(400, "Method is not allowed.")
        headers = [
            (b"access-control-allow-methods", ", ".join(_METHODS).encode()),
            (b"access-control-allow-headers", request.headers.get(b"access-control-request-headers", b"*")),
            (b"access-control-max-age", b"600"),
        ]
        raise HttpRejection(200, b"", headers)
