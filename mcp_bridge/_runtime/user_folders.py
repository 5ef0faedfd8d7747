"""Finds the folders for data beyond the life of the process, and names files in them.

Such data are decisions about approvals, sockets, logs and records.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


def get_state_folder() -> Path:
    """Return the folder of the user for decisions, sockets, logs and records. It may not exist yet."""
    return _find_folder("XDG_STATE_HOME", "~/.local/state")


def get_data_folder() -> Path:
    """Return the folder of the user for modules and conversations. It may not exist yet."""
    return _find_folder("XDG_DATA_HOME", "~/.local/share")


def hash_path(settings: Path) -> str:
    """Return a name for files about a settings file. It is short, because the path of a socket has a maximum length."""
    return hashlib.sha256(str(settings).encode(errors="surrogateescape")).hexdigest()[:16]


def _find_folder(variable: str, default: str) -> Path:
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        folder = "~/Library/Application Support"
    else:
        folder = os.environ.get(variable, "")
        # Relative paths are invalid and ignored, according to the XDG Base Directory Specification.
        if not os.path.isabs(folder):
            folder = default
    return Path(folder).expanduser() / "mcp-bridge"
