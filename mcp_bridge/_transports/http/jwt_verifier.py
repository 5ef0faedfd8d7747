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
LEEWAY = 30.0
"""The allowed difference between the clocks of issuer and server in seconds."""
_TYPES = frozenset({"jwt", "at+jwt"})
CACHED, CACHE_TIME = 1024, 60.0
"""How many verified tokens are kept, and for how many seconds: a signature costs more than the rest of a call."""


class InvalidToken(Exception):
    """The token is not accepted. The text contains nothing of the token and may be sent to the client."""


ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Only asymmetric algorithms: with a symmetric one, everyone who can verify a token can create one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtOptions:
    """The accepted tokens. Every token needs all `scopes`."""

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
        self._verified: TTLCache[bytes, tuple[TokenOwner, float, int]] = TTLCache(CACHED, CACHE_TIME)

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
        import jwt

        options = self._options
        try:
            header = jwt.get_unverified_header(token)
            kid, algorithm = header.get("kid"), header.get("alg")
            token_type = str(header.get("typ", "JWT")).lower().removeprefix("application/")
        except Exception:
            # Anyone can write a header, so it can raise anything.
            raise InvalidToken("The token is not a valid JWT.") from None
        if algorithm not in ALGORITHMS or "crit" in header:
            raise InvalidToken("The algorithm of the token is not accepted.")
        # Many issuers declare "JWT" for access tokens. An ID token or a logout token is none (RFC 8725, 3.11).
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
