"""Tool names that every client accepts: `[A-Za-z0-9_-]{1,64}`."""

from __future__ import annotations

import re

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = r"[^A-Za-z0-9_-]"
_HASH = 8


def to_client_name(name: str) -> str:
    """Return the name for clients: the same if it is safe, else a sanitized one with a hash."""
    if _SAFE.fullmatch(name):
        return name
    from hashlib import sha256

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{re.sub(_UNSAFE, '_', name)[: 63 - _HASH]}_{digest}"
