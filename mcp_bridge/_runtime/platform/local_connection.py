"""The client's end of a connection to a local endpoint, and the interface of the modules with endpoints."""

from __future__ import annotations

from pathlib import Path
from socket import socket as Socket
from typing import Protocol


class LocalConnection:
    """A connection to a server of this user.

    Args:
        connected: The socket.
        proof: The bytes with which the server begins, to prove that it belongs to this user. It is empty on systems
            that report the user of the other end.
    """

    def __init__(self, connected: Socket, proof: bytes = b"") -> None:
        self.socket = connected
        self._proof = self._missing_proof = proof

    @property
    def is_verified(self) -> bool:
        """Whether the other end is known to be a process of this user."""
        return not self._missing_proof

    def verify(self) -> bool:
        """Receive the proof, and return whether the other end is a process of this user. Raises OSError."""
        import hmac

        while self._missing_proof:
            data = self.socket.recv(len(self._missing_proof))
            if not data or not hmac.compare_digest(data, self._missing_proof[: len(data)]):
                return False
            self._missing_proof = self._missing_proof[len(data) :]
        return True

    def belongs_to(self, path: Path) -> bool:
        """Return whether a file with a proof is that of this connection, and not of a later server. Raises OSError."""
        return bool(self._proof) and self._proof in path.read_bytes()

    def receive(self, size: int) -> bytes:
        """Return some bytes after the proof, or none at the end, or if the server does not belong to this user."""
        if not self.verify():
            return b""
        return self.socket.recv(size)


class LocalListener(Protocol):
    """A listening socket, and the file at `path` through which clients find it."""

    @property
    def socket(self) -> Socket:
        """The listening socket, which does not block."""
        ...

    @property
    def path(self) -> Path:
        """The file."""
        ...

    async def admit(self, connected: Socket) -> bool:
        """Return whether an accepted connection comes from a process of this user, or of root."""
        ...

    def owns_path(self) -> bool:
        """Return whether the file at `path` is still that of this listener."""
        ...


class LocalEndpoints(Protocol):
    """A module with the endpoints of a system."""

    @property
    def HAS_UNIX_SOCKETS(self) -> bool:
        """Whether endpoints are Unix sockets."""
        ...

    def shorten_folder(self, folder: Path) -> Path:
        """Return a folder whose path is short enough for endpoints: `folder`, or one for temporary files."""
        ...

    def open_listener(self, path: Path, backlog: int) -> LocalListener:
        """Listen at an endpoint. Raises OSError.

        The file appears only when the server listens, because other servers remove a file at which none listens.
        """
        ...

    def adopt_listener(self, listening: Socket, path: Path) -> LocalListener:
        """Return the listener of an inherited socket. Raises OSError."""
        ...

    def connect_endpoint(self, path: Path) -> LocalConnection | None:
        """Connect to an endpoint, or return None if nothing listens.

        Raises PermissionError if the server belongs to another user, and other errors of connections.
        """
        ...

    def is_stale(self, path: Path) -> bool:
        """Return whether nothing listens at an endpoint."""
        ...
