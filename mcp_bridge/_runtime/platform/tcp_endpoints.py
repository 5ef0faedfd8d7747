"""Local endpoints over TCP, for systems without Unix sockets. They listen at a random port of 127.0.0.1.

Any user of the machine can connect to such a port, so both sides prove that they belong to the same user. The file of
an endpoint has the port, a token and a proof, and is in a folder that only its user can read:

1. The client sends the token. A connection with a wrong one is closed without a response, after a second.
2. The server responds with the proof. So a client notices if the server was killed and another program has its port.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._runtime.platform.local_connection import LocalConnection

if TYPE_CHECKING:
    import anyio

HAS_UNIX_SOCKETS = False
HOST = "127.0.0.1"
TOKEN_BYTES = 32
TOKEN_LENGTH = 2 * TOKEN_BYTES
"""The number of hexadecimal digits of a token, and of a proof."""
CONNECT_TIMEOUT = 1.0
"""Seconds in which the system connects. Windows takes longer to report that nothing listens at a port."""
TOKEN_TIMEOUT = 5.0
"""Seconds in which a client has to send its token."""
WRONG_TOKEN_DELAY = 1.0
"""Seconds before a connection with a wrong token is closed."""
MAX_UNVERIFIED = 64
"""The maximum number of connections without a right token. Beyond it, the oldest one is closed."""


class EndpointFile(NamedTuple):
    """The content of an endpoint's file."""

    port: int
    token: bytes
    proof: bytes


def read_endpoint(path: Path) -> EndpointFile:
    """Read the file of an endpoint. Raises FileNotFoundError, also if the file is not one of an endpoint."""
    try:
        data = json.loads(path.read_bytes())
        endpoint = EndpointFile(int(data["port"]), str(data["token"]).encode(), str(data["proof"]).encode())
    except (ValueError, TypeError, LookupError) as error:
        raise FileNotFoundError(f"{path} is not the file of a local endpoint") from error
    if len(endpoint.token) != TOKEN_LENGTH or len(endpoint.proof) != TOKEN_LENGTH:
        raise FileNotFoundError(f"{path} has no valid token")
    return endpoint


def shorten_folder(folder: Path) -> Path:
    """Return `folder`: paths of files may be long."""
    return folder


class TcpListener:
    """A listening socket that admits only clients with its token. `path` is the file with the token."""

    def __init__(self, listening: socket.socket, path: Path, endpoint: EndpointFile) -> None:
        self.socket = listening
        self.path = path
        self._endpoint = endpoint
        self._unverified: deque[anyio.CancelScope] = deque()

    async def admit(self, connected: socket.socket) -> bool:
        """Receive the token of a client, and send the proof. Return whether the token is right."""
        import anyio

        connected.setblocking(False)
        with anyio.move_on_after(TOKEN_TIMEOUT + WRONG_TOKEN_DELAY) as scope, contextlib.suppress(OSError):
            self._unverified.append(scope)
            while len(self._unverified) > MAX_UNVERIFIED:
                self._unverified.popleft().cancel()
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                token = b""
                with anyio.move_on_after(TOKEN_TIMEOUT):
                    token = await _receive_exactly(connected, TOKEN_LENGTH)
                if hmac.compare_digest(token, self._endpoint.token):
                    # The send buffer of a new connection has room for these bytes.
                    connected.send(self._endpoint.proof)
                    return True
                await anyio.sleep(WRONG_TOKEN_DELAY)
            finally:
                with contextlib.suppress(ValueError):
                    self._unverified.remove(scope)
        return False

    def owns_path(self) -> bool:
        """Return whether the file is still that of this socket, rather than of another server."""
        try:
            return read_endpoint(self.path).token == self._endpoint.token
        except OSError:
            return False


def open_listener(path: Path, backlog: int) -> TcpListener:
    """Listen at a random port, and write the file of the endpoint. Raises OSError."""
    listening = socket.socket()
    try:
        listening.setblocking(False)
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            # On Windows, another program could take over the port otherwise.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        listening.bind((HOST, 0))
        listening.listen(backlog)
        port = listening.getsockname()[1]
        data = {"port": port, "token": os.urandom(TOKEN_BYTES).hex(), "proof": os.urandom(TOKEN_BYTES).hex()}
        replace_file(path, json.dumps(data).encode())
        return adopt_listener(listening, path)
    except BaseException:
        listening.close()
        raise


def adopt_listener(listening: socket.socket, path: Path) -> TcpListener:
    """Return the listener of an inherited socket. Raises OSError."""
    return TcpListener(listening, path, read_endpoint(path))


def connect_endpoint(path: Path) -> LocalConnection | None:
    """Connect to an endpoint and send its token, or return None if nothing listens. The proof is not received yet."""
    try:
        endpoint = read_endpoint(path)
        connection = socket.create_connection((HOST, endpoint.port), CONNECT_TIMEOUT)
    except (FileNotFoundError, ConnectionRefusedError, TimeoutError):
        return None
    try:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(endpoint.token)
    except BaseException:
        connection.close()
        raise
    return LocalConnection(connection, endpoint.proof)


def is_stale(path: Path) -> bool:
    """Return whether nothing listens at an endpoint."""
    try:
        # The server logs a warning about connections without the token.
        connection = connect_endpoint(path)
    except OSError:
        return False
    if connection is not None:
        connection.socket.close()
    return connection is None


async def _receive_exactly(connected: socket.socket, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end of the input. Raises OSError."""
    import anyio

    data = b""
    while len(data) < size:
        try:
            piece = connected.recv(size - len(data))
        except BlockingIOError:
            await anyio.wait_readable(connected)
            continue
        if not piece:
            break
        data += piece
    return data
