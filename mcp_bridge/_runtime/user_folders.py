"""Finds the folders for data beyond the life of the process, and names files in them.

Such data are decisions about approvals, sockets, logs, records, modules and conversations.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def get_state_folder() -> Path:
    """Return the folder of the user for decisions, sockets, logs and records. It may not exist yet."""
    # Most starts do not need it.
    from platformdirs import user_state_path

    return user_state_path("mcp-bridge", appauthor=False)


def get_data_folder() -> Path:
    """Return the folder of the user for modules and conversations. It may not exist yet."""
    from platformdirs import user_data_path

    return user_data_path("mcp-bridge", appauthor=False)


def hash_path(settings: Path) -> str:
    """Return a name for files about a settings file. It is short, because the path of a socket has a maximum length."""
    return hashlib.sha256(str(settings).encode(errors="surrogateescape")).hexdigest()[:16]
