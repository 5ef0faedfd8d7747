"""Unix sockets of a single user: the folder, and the check of the connected user."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

RUNTIME_FOLDER = Path("/run/user")
"""Where Linux has a folder for the sockets of each user. Clients start servers without XDG_RUNTIME_DIR."""
_MACOS_PEER = 1
"""LOCAL_PEERCRED, at level 0: a version, then the user (sys/un.h)."""


def find_runtime_folder() -> Path | None:
    """Return the folder of Linux for the sockets of this user, or None if there is none."""
    if not hasattr(os, "getuid"):
        return None
    folder = RUNTIME_FOLDER / str(os.getuid())
    is_own = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.getuid()
    return folder if is_own else None


def has_unix_sockets() -> bool:
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")


def create_private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use. Raises PermissionError if other users can write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"other users can use the folder {folder}. Remove it, or run chmod 700 on it")
    return folder


def is_same_user(connected: socket.socket) -> bool:
    """Whether the other end is a process of this user or of root; true if the system does not report that."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    elif sys.platform == "darwin":
        _, user = struct.unpack_from("2I", connected.getsockopt(0, _MACOS_PEER, 76))
    else:
        return True
    return user in {os.geteuid(), 0}
