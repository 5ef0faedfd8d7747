"""Names that every client takes: `[A-Za-z0-9_-]{1,64}`, told apart by a hash where the original does not fit."""

from __future__ import annotations

import re
from hashlib import sha256

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def client_name(name: str) -> str:
    """The name a client sees: the same when it is safe, else a safe one that no other name comes out as."""
    if _SAFE.fullmatch(name):
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{_UNSAFE.sub('_', name)[: 63 - _HASH]}_{digest}"
