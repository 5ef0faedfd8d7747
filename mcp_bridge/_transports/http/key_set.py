"""The public keys of an issuer of JWTs (a JSON Web Key Set, RFC 7517), from a file or an https URL.

The keys are read when the first token arrives, and again when they are old or a token names an unknown key. PyJWT has
a client for key sets, too, but that limits neither the size of a response nor how often unknown keys make it fetch.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

if TYPE_CHECKING:
    from jwt import PyJWK

logger = logging.getLogger("mcp_bridge.transports")

FETCH_TIMEOUT = 5.0
"""Seconds in which the response of the issuer has to begin, and seconds after that in which it has to end."""
MAX_SIZE = 512 * 1024
"""The maximum number of bytes of a key set."""
MAX_KEYS = 200
"""The maximum number of keys of a key set."""
LIFETIME = {"url": 600.0, "file": 5.0}
"""Seconds after which keys are read again, because one of them may have been revoked."""
UNKNOWN_INTERVAL = {"url": 30.0, "file": 1.0}
"""The minimum of seconds between two readings because of unknown keys. Anyone can send a token with an unknown key, so
such tokens must not cause a reading each."""
RETRY_INTERVAL = 5.0
"""Seconds after which a failed reading is repeated."""
MAX_STALE = 24 * 3600.0
"""Seconds for which the keys are used if they cannot be read again."""


class KeysUnavailable(Exception):
    """The keys have never been read, or could not be read again for too long."""


class KeySet:
    """The keys at a `location`: a file or a URL.

    Attributes:
        version: The number of changes of the keys; 0 before they were read.
    """

    def __init__(self, location: str | Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._location = location
        location_type = "file" if isinstance(location, Path) else "url"
        self._lifetime, self._unknown_interval = LIFETIME[location_type], UNKNOWN_INTERVAL[location_type]
        self._clock = clock
        self._lock = anyio.Lock()
        self._documents: list[dict[str, Any]] = []
        self._keys: dict[tuple[str | None, str], PyJWK | None] = {}
        # The time of the last successful reading, and the earliest time of the next one after a failure.
        self._read_at = self._next_at = float("-inf")
        self._has_failed = False
        self.version = 0

    async def find_key(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the key for tokens of this key id and algorithm. Raises KeysUnavailable.

        A token without a key id is verified only if exactly one key fits.
        """
        await self._refresh(self._lifetime)
        key = self._select(kid, algorithm)
        if key is None:
            await self._refresh(self._unknown_interval)
            key = self._select(kid, algorithm)
        return key

    async def _refresh(self, age: float) -> None:
        """Read the keys if they are older than `age` seconds. Raises KeysUnavailable."""
        if self._is_due(age):
            # One request reads the keys, and the others wait for it.
            async with self._lock:
                if self._is_due(age):
                    # Other requests need the keys even if this one is aborted.
                    with anyio.CancelScope(shield=True):
                        await self._update_keys()
        if self._clock() - self._read_at > MAX_STALE:
            raise KeysUnavailable

    def _is_due(self, age: float) -> bool:
        if self._has_failed or not self.version:
            return self._clock() >= self._next_at
        return self._clock() - self._read_at >= age

    async def _update_keys(self) -> None:
        try:
            documents = await to_thread.run_sync(_read_keys, self._location)
        except Exception as error:
            # The issuer may send anything. The known keys stay in use.
            self._has_failed = True
            self._next_at = self._clock() + RETRY_INTERVAL
            logger.error("cannot read the keys for tokens from %s: %s", self._location, error)
            return
        self._has_failed = False
        self._read_at = self._clock()
        if documents != self._documents or not self.version:
            self._documents = documents
            self._keys = {}
            self.version += 1

    def _select(self, kid: str | None, algorithm: str) -> PyJWK | None:
        names = (kid, algorithm)
        if names not in self._keys:
            key = _build_key(self._documents, kid, algorithm)
            # Clients choose key ids, so unknown ones must not fill the memory.
            if key is None:
                return None
            self._keys[names] = key
        return self._keys[names]


def _build_key(documents: list[dict[str, Any]], kid: str | None, algorithm: str) -> PyJWK | None:
    from jwt import PyJWK, PyJWTError

    matches = []
    for document in documents:
        if kid is not None and document.get("kid") != kid:
            continue
        if document.get("use", "sig") != "sig" or document.get("alg", algorithm) != algorithm:
            continue
        try:
            matches.append(PyJWK(document, algorithm))
        except (PyJWTError, ValueError, TypeError, KeyError):
            # The type of the key does not fit the algorithm.
            continue
    return matches[0] if len(matches) == 1 else None


def _read_keys(location: str | Path) -> list[dict[str, Any]]:
    """Return the keys in a file or at a URL. Raises OSError, http.client.HTTPException or ValueError."""
    if isinstance(location, str):
        content = _fetch(location)
    else:
        with location.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
    if len(content) > MAX_SIZE:
        raise ValueError(f"more than {MAX_SIZE} bytes")
    document = json.loads(content)
    keys = document.get("keys") if isinstance(document, dict) else None
    valid_keys = []
    if isinstance(keys, list):
        valid_keys = [key for key in keys if isinstance(key, dict)]
    if not 0 < len(valid_keys) <= MAX_KEYS:
        raise ValueError(f"expected a JSON Web Key Set with 1 to {MAX_KEYS} keys")
    return valid_keys


def _fetch(url: str) -> bytes:
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class RedirectRejection(HTTPRedirectHandler):
        """Follows no redirect: the settings decide where keys come from."""

        def redirect_request(self, *args: Any) -> None:
            return None

    request = Request(url, headers={"Accept": "application/json", "User-Agent": "mcp-bridge"})  # noqa: S310 - settings
    content = b""
    try:
        with build_opener(RedirectRejection).open(request, timeout=FETCH_TIMEOUT) as response:
            end = time.monotonic() + FETCH_TIMEOUT
            while len(content) <= MAX_SIZE:
                chunk = response.read1(65536)
                if not chunk:
                    break
                content += chunk
                if time.monotonic() > end:
                    raise TimeoutError(f"the response takes longer than {FETCH_TIMEOUT:g} seconds")
    except HTTPError as error:
        error.close()
        raise ValueError(f"the status of the response is {error.code}") from None
    return content
