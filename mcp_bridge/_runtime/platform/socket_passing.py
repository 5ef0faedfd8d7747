"""Passes connected sockets, with bytes that were already read from them, to other processes of the same user (POSIX).

Each message is one datagram of a Unix socket, so several processes can write to one inbox without a protocol. Long data
does not fit into a datagram, so it is passed as an open file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from array import array
from pathlib import Path
from typing import Any

# Type checkers for Windows do not know these names.
posix_socket: Any = socket
MAX_INLINE = 32 * 1024
"""The maximum number of bytes in a datagram. Linux limits datagrams to the send buffer, of 200 kB by default."""
LONGEST_FOLDER = 80
"""The maximum number of bytes in the path of a folder of inboxes (sun_path has 104 on macOS and 108 on Linux)."""
_BUFFER = 256 * 1024
"""The sizes of the buffers of sockets in bytes. macOS has 2 kB by default."""
_FULL = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS})
"""The errors while the inbox has no room. Linux limits the number of datagrams (net.unix.max_dgram_qlen)."""


def create_inbox_folder() -> Path:
    """Create a private folder for inboxes, among the temporary files. Raises OSError."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-bridge-"))
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        folder.rmdir()
        raise OSError(errno.ENAMETOOLONG, "the path of the folder for temporary files is too long", str(folder))
    return folder


class SocketInbox:
    """Receives sockets at a path, in a folder that no other user can enter. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(posix_socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self.socket.bind(str(path))
        except BaseException:
            self.socket.close()
            raise

    def rename(self, name: str) -> None:
        self.path = self.path.rename(self.path.with_name(name))

    def receive_socket(self) -> tuple[socket.socket, bytes] | None:
        """Return the next socket with its data, or None if there is none. Raises OSError."""
        try:
            data, descriptors, _, _ = posix_socket.recv_fds(self.socket, MAX_INLINE + 1, 2)
        except BlockingIOError:
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if not data:
            # This is the end after `refuse`.
            return None
        if not descriptors:
            raise OSError(errno.EMFILE, "a connection was lost, because no descriptor was free")
        if len(descriptors) > 1:
            with open(descriptors[1], "rb") as file:
                return socket.socket(fileno=descriptors[0]), file.read()
        return socket.socket(fileno=descriptors[0]), data[1:]

    def refuse(self) -> None:
        """Refuse further messages. Those in the queue can still be received."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        self.socket.close()
        self.path.unlink(missing_ok=True)


def send_socket(inbox: Path, descriptor: int, data: bytes = b"") -> bool:
    """Pass the socket of a descriptor to the process with this inbox. Return False if this process has ended.

    Raises BlockingIOError while the inbox has no room.
    """
    with contextlib.ExitStack() as stack:
        sender: Any = stack.enter_context(socket.socket(posix_socket.AF_UNIX, socket.SOCK_DGRAM))
        sender.setblocking(False)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        descriptors = [descriptor]
        if len(data) > MAX_INLINE:
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(data)
            file.seek(0)
            descriptors.append(file.fileno())
            data = b""
        ancillary = [(socket.SOL_SOCKET, posix_socket.SCM_RIGHTS, array("i", descriptors))]
        try:
            # An empty datagram would look like the end of the inbox, so each begins with a null byte.
            sender.sendmsg([b"\0", data], ancillary, 0, str(inbox))
        except (ConnectionError, FileNotFoundError):
            return False
        except OSError as error:
            if error.errno in _FULL:
                raise BlockingIOError(error.errno, "the inbox has no room") from error
            raise
    return True
