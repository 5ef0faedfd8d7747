"""The metadata of the server as an OAuth protected resource (RFC 9728), by which clients find the issuer of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from mcp_bridge._transports.http.request import HttpRequest

METADATA_PATH = "/.well-known/oauth-protected-resource"
MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """The server as a protected resource.

    Attributes:
        issuer: The authorization server that issues its tokens.
        scopes: The scopes that every token needs.
        url: The address of the server for clients. Without it, the address is made from the header Host, which
            AccessGuard has checked.
    """

    issuer: str
    scopes: tuple[str, ...] = ()
    url: str | None = None

    @property
    def path(self) -> str:
        """The path of the server as clients see it."""
        return MCP_PATH if self.url is None else urlsplit(self.url).path.rstrip("/")

    def render_metadata(self, request: HttpRequest) -> bytes:
        """Return the metadata as JSON."""
        metadata: dict[str, Any] = {
            "resource": self.url or f"{_read_base(request)}{MCP_PATH}",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self.scopes:
            metadata["scopes_supported"] = self.scopes
        return orjson.dumps(metadata)

    def format_metadata_url(self, request: HttpRequest) -> str:
        """Return the address of the metadata. Its path precedes the path of the resource (RFC 9728, 3.1)."""
        if self.url is None:
            return f"{_read_base(request)}{METADATA_PATH}{MCP_PATH}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{self.path}"


def _read_base(request: HttpRequest) -> str:
    """Return the start of the server's addresses: scheme, host, port and the root of the app."""
    parts = urlsplit(f"//{request.get_header(b'host') or ''}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    try:
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        port = ""
    return f"{request.scope.get('scheme', 'http')}://{host}{port}{request.scope.get('root_path', '').rstrip('/')}"
