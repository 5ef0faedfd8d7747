"""The folder for data beyond the life of the process, and names in it for a settings file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def get_state_folder() -> Path:
    """Return the state folder of the user. It may not exist yet."""
    from platformdirs import user_state_path

    return user_state_path("mcp-bridge", appauthor=False)


def hash_path(settings: Path) -> str:
    """Return a name for a settings file. It is short, because the length of a socket's path is limited."""
    return hashlib.sha256(str(settings).encode(errors="surrogateescape")).hexdigest()[:16]
