"""Verifies JWTs as access tokens: signature, issuer, audience and time (RFC 7519, RFC 8725, RFC 9068).

Requires the extra `jwt` (PyJWT). Only this module and `key_set` import it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cachetools import TTLCache

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._transports.http.key_set import KeySet
from mcp_bridge._transports.http.request import TokenOwner, format_principal

MAX_TOKEN = 16 * 1024
"""The maximum number of bytes of a token."""
LEEWAY = 30.0
"""The allowed difference between the clocks of the issuer and the server in seconds."""
_TYPES = frozenset({"jwt", "at+jwt"})
"""The accepted types of tokens (RFC 9068, 2.1)."""
CACHE_SIZE, CACHE_TIME = 1024, 60.0
"""The maximum number of verified tokens that are remembered, and for how many seconds. Verifying a signature costs more
than the rest of a call."""


class InvalidToken(Exception):
    """The token is not accepted. The text may be sent to the client, because it contains nothing of the token."""


ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""The accepted algorithms. All are asymmetric: with a symmetric one, everyone who can verify tokens can create them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtOptions:
    """Which tokens are accepted: their issuer, their audience, and the scopes that every token needs."""

    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()


class JwtVerifier:
    """Verifies tokens with the keys of their issuer."""

    def __init__(self, options: JwtOptions, keys: KeySet) -> None:
        """Raises ConfigError if PyJWT is not installed."""
        try:
            from jwt import PyJWT
        except ImportError as error:
            hint = "Install it: pip install 'mcp-tool-bridge[jwt]'"
            raise ConfigError("PyJWT is not installed", where="http.jwt", hint=hint) from error
        self.scopes = frozenset(options.scopes)
        self._options = options
        self._keys = keys
        self._jwt = PyJWT(options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True})
        # The owner, the expiry and the version of the keys, by the hash of the token.
        self._verified: TTLCache[bytes, tuple[TokenOwner, float, int]] = TTLCache(CACHE_SIZE, CACHE_TIME)

    async def verify(self, token: bytes) -> TokenOwner:
        """Return the owner of a token. Raises InvalidToken and KeysUnavailable."""
        if len(token) > MAX_TOKEN:
            raise InvalidToken("The token is too long.")
        digest = sha256(token).digest()
        caller, expiry, version = self._verified.get(digest, (None, 0.0, 0))
        if caller is not None and version == self._keys.version and time.time() < expiry + LEEWAY:
            return caller
        claims = await self._decode(token)
        caller = _read_caller(claims)
        self._verified[digest] = (caller, float(claims["exp"]), self._keys.version)
        return caller

    async def _decode(self, token: bytes) -> Mapping[str, Any]:
        """Return the claims of a token after its verification. Raises InvalidToken and KeysUnavailable."""
        import jwt

        options = self._options
        try:
            header = jwt.get_unverified_header(token)
            kid, algorithm = header.get("kid"), header.get("alg")
            token_type = str(header.get("typ", "JWT")).lower().removeprefix("application/")
        except Exception:
            # Anyone can write a header, so parsing it may raise any error.
            raise InvalidToken("The token is not a valid JWT.") from None
        if algorithm not in ALGORITHMS or "crit" in header:
            raise InvalidToken("The algorithm of the token is not accepted.")
        # Many issuers declare "JWT" for access tokens. Other types, such as logout tokens, must not be accepted as
        # access tokens (RFC 8725, 3.11).
        if token_type not in _TYPES:
            raise InvalidToken("The token is not an access token.")
        key = await self._keys.find_key(kid if isinstance(kid, str) else None, algorithm)
        if key is None:
            raise InvalidToken("The key of the token is unknown.")
        try:
            return self._jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=options.audience,
                issuer=options.issuer,
                leeway=LEEWAY,
            )
        except jwt.ExpiredSignatureError:
            raise InvalidToken("The token has expired.") from None
        except jwt.ImmatureSignatureError:
            raise InvalidToken("The token is not valid yet.") from None
        except jwt.InvalidAudienceError:
            raise InvalidToken("The token is for another audience.") from None
        except jwt.InvalidIssuerError:
            raise InvalidToken("The token is from another issuer.") from None
        except Exception:
            # The signature is invalid, or claims have a wrong type.
            raise InvalidToken("The token is not valid.") from None


def _read_caller(claims: Mapping[str, Any]) -> TokenOwner:
    client = claims.get("client_id", claims.get("azp"))
    if not claims["sub"] or not isinstance(client, str | None):
        raise InvalidToken("The token does not name its subject.")
    scopes = claims.get("scope", claims.get("scp"))
    if isinstance(scopes, str):
        scopes = scopes.split()
    elif not isinstance(scopes, list):
        scopes = []
    return TokenOwner(
        principal=format_principal(client, claims["iss"], claims["sub"]),
        scopes=frozenset(name for name in scopes if isinstance(name, str)),
    )
