"""The sockets between running bridges and those who approve: one folder for a settings file, one socket a bridge."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

Json = dict[str, Any]
SUFFIX = ".sock"
LINE = 256 * 1024
"""The most bytes of one message."""
SEND = 5.0
"""Seconds in which the other end has to take a message."""
LOST = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""What is raised when the other end has gone."""
_MACOS_PEER = 1
"""LOCAL_PEERCRED, at level 0: a version, then the user (sys/un.h)."""


def are_there() -> bool:
    """Whether this system has such sockets."""
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")


def private(folder: Path) -> Path:
    """The folder, made for its owner alone. Raises PermissionError where others could put something into it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user's alone. Remove it, or chmod 700")
    return folder


class Line:
    """One connection. anyio's own stream over these sockets can be cancelled while data arrives only at the price of
    an error in the event loop; what it waits with cannot.
    """

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no database
        self._rest = b""

    @property
    def is_own(self) -> bool:
        """Whether the other end is a process of this user or of root; true where the system does not tell."""
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            _, user, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        elif sys.platform == "darwin":
            _, user = struct.unpack_from("2I", self._socket.getsockopt(0, _MACOS_PEER, 76))
        else:
            return True
        return user in {os.geteuid(), 0}

    async def __aenter__(self) -> Line:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()

    async def send(self, message: Json) -> None:
        """Send one message. Raises what `LOST` has, TimeoutError among it when the other end does not take it."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with anyio.fail_after(SEND):
            while data:
                try:
                    data = data[self._socket.send(data) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)

    async def receive(self) -> Json:
        """The next message. Raises what `LOST` has, and ValueError for a line that is none."""
        while b"\n" not in self._rest:
            if len(self._rest) > LINE:
                raise ValueError(f"a line of more than {LINE} bytes")
            await self._more()
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except RecursionError:
            raise ValueError("it nests too deep") from None
        if not isinstance(message, dict):
            raise ValueError("a message is an object")  # noqa: TRY004 - whatever is wrong with a line
        return message

    async def _more(self) -> None:
        while True:
            try:
                data = self._socket.recv(65536)
                break
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
        if not data:
            raise anyio.EndOfStream
        self._rest += data
