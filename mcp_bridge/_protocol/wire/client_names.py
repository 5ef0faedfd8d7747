"""Turns names of tools into names that every client accepts: `[A-Za-z0-9_-]{1,64}`."""

from __future__ import annotations

import re

_MAX_NAME = 64
_HASH_LENGTH = 8
_SAFE_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_NAME}}}")
_UNSAFE_CHARACTER = r"[^A-Za-z0-9_-]"


def to_client_name(name: str) -> str:
    """Return a safe name unchanged. In other names, replace unsafe characters, and append a hash of the name.

    The hash keeps different names different.
    """
    if _SAFE_NAME.fullmatch(name):
        return name
    # Few tools have unsafe names, so a start usually does not need this module.
    from hashlib import sha256

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    sanitized_name = re.sub(_UNSAFE_CHARACTER, "_", name)
    return f"{sanitized_name[: _MAX_NAME - _HASH_LENGTH - 1]}_{digest}"
