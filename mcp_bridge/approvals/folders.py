"""Where approvals are kept that have no place in the settings: by the settings file, for this user."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

RUNTIME = Path("/run/user")
"""Where users of Linux have folders for sockets. Their variable for it is not asked: clients start bridges without."""


def sockets_of(settings: Path) -> Path:
    """The folder of the sockets of bridges that serve these settings."""
    runtime = RUNTIME / str(os.getuid()) if hasattr(os, "getuid") else None
    if runtime is not None and os.access(runtime, os.W_OK | os.X_OK) and runtime.stat().st_uid == os.getuid():
        return runtime / "mcp-bridge" / _name(settings)
    return _state() / "sockets" / _name(settings)


def store_of(settings: Path) -> Path:
    """The file of the store for these settings."""
    return _state() / f"{_name(settings)}.sqlite3"


def _state() -> Path:
    from platformdirs import user_state_path

    return user_state_path("mcp-bridge", appauthor=False)


def _name(settings: Path) -> str:
    """Short, because the path of a socket has to be."""
    return hashlib.sha256(str(settings).encode(errors="surrogateescape")).hexdigest()[:16]
