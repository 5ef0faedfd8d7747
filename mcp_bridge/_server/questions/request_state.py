"""Seals the `requestState` that passes through clients (2026-07-28, basic/patterns/mrtr, "Server Requirements").

A sealed state consists of "v1.", the fingerprint of its key, and the nonce and the ciphertext of AES-256-GCM, in
base64url. The request it belongs to is associated data: it is authenticated, but not part of the text. So a client can
neither read or change a state, nor use it with another request.

Each state is valid once. UsedStates remembers the used ones, and no other data can evict these records.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._contracts.store import Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

logger = logging.getLogger("mcp_bridge.server")

_VERSION = "v1."
_PURPOSE = b"mcp-bridge/request-state/v1"
_MIN_KEY = 32
_FINGERPRINT = 8
"""The number of characters of a fingerprint. By it, most invented states are rejected without being decoded, whatever
their size."""
_NONCE = 12
"""The number of bytes of a nonce of AES-GCM."""
_TIMES = struct.Struct("!dd")
"""The times at which the state was sealed and expires, in seconds since 1970. They precede the text."""
SKEW = 60.0
"""The number of seconds by which the clock of another instance may be ahead."""
MARKS = 100_000
"""The maximum number of used states that are remembered. Each takes about 200 bytes."""
_PREFIX = "mcp-bridge/used/"


class _InvalidState(ValueError):
    """The sealed state is invalid. The text is the reason, for the log only."""


class StateSealer:
    """Encrypts states and binds each to its request: the method, the name or URI, the arguments and the principal.

    Args:
        keys: Secrets of at least 32 bytes. The first key seals, and every key opens. Without keys, this sealer
            generates one, so no other instance can open its states.
        ttl: The number of seconds for which a state is valid.
        audience: The name of the server. Servers with other names do not accept its states, even with the same keys.
        clock: Returns seconds since 1970.
        prefix: The text before each state, or "" for none.

    Raises ValueError for too short a key, and for a `ttl` of zero or less.
    """

    def __init__(
        self,
        keys: Sequence[str],
        ttl: float,
        audience: str,
        *,
        clock: Callable[[], float] | None = None,
        prefix: str = "",
    ) -> None:
        self._secrets = [key.encode() for key in keys] or [secrets.token_bytes(_MIN_KEY)]
        if any(len(key) < _MIN_KEY for key in self._secrets):
            raise ValueError(f"a key that seals request states has at least {_MIN_KEY} bytes")
        if not (math.isfinite(ttl) and ttl > 0):
            raise ValueError(f"the ttl of a request state must be a positive number of seconds, found {ttl!r}")
        self._ttl = ttl
        self._audience = audience
        self._prefix = prefix
        self._clock = clock or time.time

    def seal(self, text: str, *, method: str, params: Mapping[str, Any], principal: str | None) -> str:
        """Seal a text. Only a repetition of this request by the same principal can open it."""
        binding = self._encode_binding(method, params, principal)
        # The first key seals.
        fingerprint, cipher = next(iter(self._ciphers.items()))
        now = self._clock()
        nonce = secrets.token_bytes(_NONCE)
        plain = _TIMES.pack(now, now + self._ttl) + text.encode("utf-8", "surrogatepass")
        return f"{self._prefix}{_VERSION}{fingerprint}{_encode(nonce + cipher.encrypt(nonce, plain, binding))}"

    def open(self, sealed: object, *, method: str, params: Mapping[str, Any], principal: str | None) -> str:
        """Return the text of a sealed state. Raises RpcError for anything else, and logs the reason."""
        try:
            return self._open(sealed, method, params, principal)
        except _InvalidState as reason:
            logger.warning("requestState rejected on %s: %s", method, reason)
        raise RpcError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})

    def _open(self, sealed: object, method: str, params: Mapping[str, Any], principal: str | None) -> str:
        from cryptography.exceptions import InvalidTag

        if self._prefix and isinstance(sealed, str):
            # Another instance has issued the state under its prefix, and does not run any more.
            sealed = sealed[len(self._prefix) :]
        if not isinstance(sealed, str) or not sealed.startswith(_VERSION):
            raise _InvalidState("not a sealed state")
        start = len(_VERSION) + _FINGERPRINT
        cipher = self._ciphers.get(sealed[len(_VERSION) : start])
        if cipher is None:
            raise _InvalidState("sealed with an unknown key")
        raw = _decode(sealed[start:])
        try:
            plain = cipher.decrypt(raw[:_NONCE], raw[_NONCE:], self._encode_binding(method, params, principal))
        except InvalidTag:
            raise _InvalidState("changed, or sealed for another request, principal or server") from None
        except (ValueError, OverflowError, RecursionError):
            raise _InvalidState("too short, too long or with arguments that are nested too deeply") from None
        since, until = _TIMES.unpack_from(plain)
        now = self._clock()
        if not since - SKEW <= now < until:
            raise _InvalidState("expired, or sealed in the future")
        return plain[_TIMES.size :].decode("utf-8", "surrogatepass")

    @cached_property
    def _ciphers(self) -> dict[str, AESGCM]:
        """The ciphers of the keys by their fingerprints, in the order of the keys.

        They are made late, because importing cryptography takes 10 ms.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        keys = [HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key) for key in self._secrets]
        return {_encode(hashlib.sha256(_PURPOSE + key).digest()[:6]): AESGCM(key) for key in keys}

    def _encode_binding(self, method: str, params: Mapping[str, Any], principal: str | None) -> bytes:
        """Encode the common parts of a request and its repetition. Its `_meta`, for example, may differ.

        The JSON of the standard library is used, because its ASCII can represent surrogates and integers of any size.
        """
        if method == "resources/read":
            target, arguments = params.get("uri"), None
        else:
            target, arguments = params.get("name"), params.get("arguments") or {}
        return json.dumps([self._audience, method, target, arguments, principal], sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise _InvalidState("not base64url") from None
    # Base64 has several spellings of the same data. Only one is accepted, so that a state has one form.
    if _encode(data) != text:
        raise _InvalidState("not canonical base64url")
    return data


class StateUse(Enum):
    """The outcome of using a state."""

    FIRST = auto()
    REPEATED = auto()
    """The state was used before, or the shared store has failed."""
    NO_ROOM = auto()
    """The use of the state could not be remembered."""


class UsedStates:
    """Remembers the handles of used states until their seals, which are valid for `ttl` seconds, have expired.

    At most `limit` handles are remembered, and at most half as many of one client. Beyond that, no new states are
    issued (`has_room`). An old handle is never forgotten too early, because its state could then be used again. If
    there is a `shared` store, a state is valid once for all instances together.
    """

    def __init__(
        self, shared: Store | None, ttl: float, *, limit: int = MARKS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._ttl = ttl + SKEW
        self._limit = limit
        self._clock = clock
        # The time at which each handle is forgotten, and its client. The oldest handle is the first.
        self._used: dict[str, tuple[float, str | None]] = {}
        self._counts: Counter[str | None] = Counter()

    def has_room(self, client: str | None, reserved: int = 0) -> bool:
        """Return whether a new state can be issued to a client. `reserved` states were issued, but are not used yet."""
        self._forget_expired()
        if len(self._used) + reserved >= self._limit:
            return False
        return self._has_share(client)

    async def use(self, handle: str, client: str | None) -> StateUse:
        """Remember the use of a state, and return whether it is the first one."""
        self._forget_expired()
        if handle in self._used:
            return StateUse.REPEATED
        if len(self._used) >= self._limit or not self._has_share(client):
            return StateUse.NO_ROOM
        self._used[handle] = (self._clock() + self._ttl, client)
        self._counts[client] += 1
        if self._shared is not None and not await self._shared.add(_PREFIX + handle, b"", self._ttl):
            return StateUse.REPEATED
        return StateUse.FIRST

    def _has_share(self, client: str | None) -> bool:
        return client is None or self._counts[client] < self._limit // 2

    def _forget_expired(self) -> None:
        now = self._clock()
        while self._used:
            handle, (until, client) = next(iter(self._used.items()))
            if until > now:
                break
            del self._used[handle]
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]
