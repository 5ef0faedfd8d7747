"""Authenticates requests by bearer tokens (RFC 6750): static tokens and JWTs.

A token identifies a principal, the owner of sessions, suspended calls, approvals and quotas.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, TokenOwner, make_rejection

if TYPE_CHECKING:
    from mcp_bridge._transports.http.jwt_verifier import JwtVerifier
    from mcp_bridge._transports.http.protected_resource import ProtectedResource

RETRY_AFTER = ((b"retry-after", b"5"),)
"""The header of the rejection while the keys for JWTs cannot be read: after RETRY_INTERVAL, they are read again."""


class StaticTokens:
    """The tokens in the settings: `named` tokens by principal, and a `token` without a principal.

    Only hashes of tokens are kept. A token is compared with all of them in constant time, so the duration shows neither
    whether a token is similar nor which one matches.
    """

    def __init__(self, token: str | None = None, named: Mapping[str, str] | None = None) -> None:
        self._anonymous = [(_hash_token(token.encode()), TokenOwner())] if token is not None else []
        self._named: dict[str, bytes] = {}
        self._owners: list[tuple[bytes, TokenOwner]] = []
        self._listeners: list[Callable[[frozenset[str]], object]] = []
        self.replace_named(named or {})

    def find_caller(self, token: bytes) -> TokenOwner | None:
        """Return the owner of a token, or None."""
        digest = _hash_token(token)
        caller = None
        for known_digest, owner in self._owners:
            if hmac.compare_digest(digest, known_digest):
                caller = owner
        return caller

    def replace_named(self, named: Mapping[str, str]) -> None:
        """Replace the named tokens, and report the removed principals to the listeners."""
        removed_names = frozenset(self._named) - frozenset(named)
        self._named = {name: _hash_token(token.encode()) for name, token in named.items()}
        named_owners = [(digest, TokenOwner(principal=name)) for name, digest in self._named.items()]
        self._owners = self._anonymous + named_owners
        if removed_names:
            for listener in self._listeners:
                listener(removed_names)

    def add_removal_listener(self, listener: Callable[[frozenset[str]], object]) -> None:
        """Call `listener` with the principals of removed tokens."""
        self._listeners.append(listener)


class Authenticator:
    """Finds the caller of each request by its bearer token. `resource` is the metadata for clients with JWTs."""

    def __init__(
        self, tokens: StaticTokens, jwt: JwtVerifier | None = None, resource: ProtectedResource | None = None
    ) -> None:
        self.tokens = tokens
        self.resource = resource
        self._jwt = jwt

    async def authenticate(self, request: HttpRequest) -> TokenOwner:
        """Return the caller of a request. Raises HttpRejection (401, 403 or 503)."""
        authorization = request.headers.get(b"authorization", b"").strip(b" \t")
        # The scheme is case-insensitive (RFC 9110, 11.1).
        scheme, _, token = authorization.partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer" or not token:
            raise self._make_challenge(request)
        caller = self.tokens.find_caller(token)
        if caller is not None:
            return caller
        if self._jwt is None:
            raise self._make_challenge(request, "invalid_token", "The bearer token is not valid.")
        from mcp_bridge._transports.http.jwt_verifier import InvalidToken
        from mcp_bridge._transports.http.key_set import KeysUnavailable

        try:
            caller = await self._jwt.verify(token)
        except InvalidToken as error:
            raise self._make_challenge(request, "invalid_token", str(error)) from None
        except KeysUnavailable:
            message = "The keys that verify tokens are not available. Retry later."
            raise make_rejection(503, message, RETRY_AFTER) from None
        if not caller.scopes.issuperset(self._jwt.scopes):
            raise self._make_challenge(request, "insufficient_scope", "The token lacks a required scope.")
        return caller

    def _make_challenge(self, request: HttpRequest, error: str = "", description: str = "") -> HttpRejection:
        """Return a rejection with a WWW-Authenticate challenge (RFC 6750, 3; RFC 9728, 5.1)."""
        fields = {"realm": "mcp-bridge"}
        if self.resource is not None:
            fields["resource_metadata"] = self.resource.format_metadata_url(request)
            if self.resource.scopes:
                fields["scope"] = " ".join(self.resource.scopes)
        # A request without a token gets no error code (RFC 6750, 3.1).
        if error:
            fields |= {"error": error, "error_description": description}
        challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in fields.items())
        status = 403 if error == "insufficient_scope" else 401
        headers = [(b"www-authenticate", challenge.encode("latin-1", "replace"))]
        return make_rejection(status, description or "A valid bearer token is required.", headers)


def _hash_token(token: bytes) -> bytes:
    return sha256(token).digest()
