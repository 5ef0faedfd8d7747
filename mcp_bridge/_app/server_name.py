"""Chooses the name of a server that serves a file. `install` uses it, and clients see it."""

from __future__ import annotations

import os
import re
from pathlib import Path

SETTINGS_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".jsonc")
DEFAULT_FILES = (*[f"mcp-bridge{suffix}" for suffix in SETTINGS_SUFFIXES], "tools.py")
_PLAIN_NAMES = frozenset((*DEFAULT_FILES, "app.py", "main.py", "mcp_server.py", "server.py"))
"""Names of files that many projects have. The server of such a file is named after the folder."""


def choose_server_name(path: Path) -> str:
    """Return the name of a folder or file, or of its folder if many files have its name.

    >>> choose_server_name(Path("/home/ann/shelf.yaml")), choose_server_name(Path("/home/ann/shelf/tools.py"))
    ('shelf', 'shelf')
    """
    # The path `.` has no name, so it is made absolute first.
    path = Path(os.path.abspath(path))
    if path.is_dir():
        return to_server_name(path.name)
    return to_server_name(path.parent.name if path.name in _PLAIN_NAMES else path.stem)


def to_server_name(text: str) -> str:
    """Return a server name that every client accepts."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:64].strip("-") or "mcp-bridge"
