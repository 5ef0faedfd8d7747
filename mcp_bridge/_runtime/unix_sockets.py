"""Keeps Unix sockets private to their user: a private folder, and a check of the connected user.

The shared server and the operator API listen on such sockets.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

RUNTIME_FOLDER = Path("/run/user")
"""Where Linux has a folder for the sockets of each user. XDG_RUNTIME_DIR is not used, because clients start servers
without it."""
_MACOS_PEER = 1
"""The socket option LOCAL_PEERCRED, at level 0. Its value starts with a version and the user (sys/un.h)."""


def find_runtime_folder() -> Path | None:
    """Return this user's folder in RUNTIME_FOLDER, or None if there is none."""
    if not hasattr(os, "getuid"):
        return None
    folder = RUNTIME_FOLDER / str(os.getuid())
    is_own = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.getuid()
    return folder if is_own else None


def has_unix_sockets() -> bool:
    """Whether this system and this Python support Unix sockets."""
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")


def create_private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use. Raises PermissionError if other users can write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"other users can use the folder {folder}. Remove it, or run chmod 700 on it")
    return folder


def is_same_user(connected: socket.socket) -> bool:
    """Whether the other end is a process of this user or of root. True on systems that do not report the user."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    elif sys.platform == "darwin":
        _, user = struct.unpack_from("2I", connected.getsockopt(0, _MACOS_PEER, 76))
    else:
        return True
    return user in {os.geteuid(), 0}
