"""Local endpoints as Unix sockets: in a folder that only their user can enter, with a check of the connected user."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
from pathlib import Path

from mcp_bridge._runtime.platform.local_connection import LocalConnection

assert sys.platform != "win32"

HAS_UNIX_SOCKETS = True
LONGEST_PATH = 100
"""The maximum number of bytes in the path of a socket (sun_path has 104 on macOS and 108 on Linux)."""
LONGEST_NAME = len(f"/{'0' * 20}.sock")
"""The number of bytes of a path for the separator and the name of a socket."""
_MACOS_PEER = 1
"""The socket option LOCAL_PEERCRED, at level 0. Its value starts with a version and the user (sys/un.h)."""


def shorten_folder(folder: Path) -> Path:
    """Return `folder`, or one for temporary files if its path is too long for sockets."""
    if len(os.fsencode(folder)) <= LONGEST_PATH - LONGEST_NAME:
        return folder
    # This import takes a tenth of the time of a start, and is rarely necessary.
    import tempfile

    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"mcp-bridge-{os.getuid()}-{name}"


class UnixListener:
    """A listening Unix socket. `path` is its file."""

    def __init__(self, listening: socket.socket, path: Path) -> None:
        self.socket = listening
        self.path = path
        self._identity = _identify_file(path)

    async def admit(self, connected: socket.socket) -> bool:
        """Return whether the other end is a process of this user or of root."""
        return is_same_user(connected)

    def owns_path(self) -> bool:
        """Return whether the file is still that of this socket, rather than of another server."""
        return _identify_file(self.path) == self._identity


def open_listener(path: Path, backlog: int) -> UnixListener:
    """Listen at a path without blocking, so that a shutdown leaves no file behind. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX)
    temporary_path = path.with_suffix(".new")
    try:
        listening.setblocking(False)
        listening.bind(str(temporary_path))
        temporary_path.chmod(0o600)
        listening.listen(backlog)
        # Other servers would remove a socket without a listener as stale.
        temporary_path.rename(path)
    except BaseException:
        listening.close()
        temporary_path.unlink(missing_ok=True)
        raise
    return UnixListener(listening, path)


def adopt_listener(listening: socket.socket, path: Path) -> UnixListener:
    """Return the listener of an inherited socket."""
    return UnixListener(listening, path)


def connect_endpoint(path: Path) -> LocalConnection | None:
    """Connect to a socket, or return None if nothing listens. Raises PermissionError for another user's socket."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        if not is_same_user(connection):
            raise PermissionError(f"the socket {path} belongs to another user")
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return LocalConnection(connection)


def is_stale(path: Path) -> bool:
    """Return whether nothing listens at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


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


def _identify_file(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, or None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
