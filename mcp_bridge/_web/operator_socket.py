"""The private socket of a running bridge: HTTP with the routes of the operator API, for the user that runs it.

Each bridge has its own socket, in a folder that no other user can enter.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio

from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.unix_sockets import create_private_folder, has_unix_sockets, is_same_user

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._transports.http1.asgi import Receive, Scope, Send
    from mcp_bridge._transports.http1.pool import ConnectionPool
    from mcp_bridge._web.api import OperatorApi

logger = logging.getLogger("mcp_bridge.approvals")

SUFFIX = ".sock"
MAX_TRIES = 5
CLOSE_TIMEOUT = 0.5
"""Seconds that responses have at the end of the server."""


class OperatorConnections:
    """The connections of the user who runs a server. `build_api` is called with the first one.

    Only then are the API and the HTTP server imported, because most bridges never have such a connection.
    """

    def __init__(self, build_api: Callable[[], OperatorApi]) -> None:
        self._build_api = build_api
        self._api: OperatorApi | None = None
        self._pool: ConnectionPool | None = None

    async def serve_connection(self, connected: socket.socket) -> None:
        """Serve a connection, which has been accepted, unless it is of another user."""
        if not is_same_user(connected):
            logger.warning("rejected a connection from another user to the private socket")
            connected.close()
            return
        if self._pool is None:
            from mcp_bridge._transports.http1.connection import ClientTimeouts
            from mcp_bridge._transports.http1.pool import ConnectionPool

            self._api = self._build_api()
            self._pool = ConnectionPool(self._serve_request, ClientTimeouts())
        connected.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(self._pool.open_connection, connected)

    async def close(self) -> None:
        """End the event streams and the connections."""
        if self._api is not None and self._pool is not None:
            self._api.end_streams()
            with anyio.CancelScope(shield=True):
                await self._pool.close(CLOSE_TIMEOUT)

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp_bridge._transports.http.request import ClientDisconnected, HttpRejection, HttpRequest, make_rejection
        from mcp_bridge._web.viewer import LOCAL_OPERATOR

        assert self._api is not None
        request = HttpRequest(scope, receive, send)
        serve = self._api.find_handler(scope["path"].rstrip("/"), LOCAL_OPERATOR)
        try:
            if serve is None:
                raise make_rejection(404, "Not found. This socket serves the operator API alone.")
            await serve(request)
        except ClientDisconnected:
            pass
        except HttpRejection as rejection:
            await request.reject(rejection)


class OperatorSocket:
    """The socket of a bridge in `folder`, where users at terminals connect to its desk."""

    def __init__(self, folder: Path, desk: QuestionDesk, build_api: Callable[[], OperatorApi]) -> None:
        self._folder = folder
        self._desk = desk
        self._connections = OperatorConnections(build_api)

    async def run(self) -> None:
        """Serve the socket until cancelled. If that is not possible it is logged, and no user is asked."""
        if not has_unix_sockets() or not is_on_asyncio():
            reason = "this event loop is not asyncio" if has_unix_sockets() else "this system has no Unix sockets"
            logger.info("approvals in a terminal are not available: %s", reason)
            return
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{SUFFIX}"
        try:
            listening = self._listen(path)
        except OSError as error:
            logger.warning("approvals in a terminal are not available: %s", error)
            return
        try:
            self._desk.is_open = True
            with listening:
                await self._accept_connections(listening)
        finally:
            self._desk.is_open = False
            with suppress(OSError):
                path.unlink()
                self._folder.rmdir()  # fails if another server has a socket there
            await self._connections.close()

    def _listen(self, path: Path) -> socket.socket:
        for _ in range(MAX_TRIES):
            create_private_folder(self._folder)
            _remove_stale_sockets(self._folder)
            with suppress(FileNotFoundError):  # another server has just ended, and removed the folder
                return _open_socket(path)
        raise FileNotFoundError(f"other servers keep removing {self._folder}")

    async def _accept_connections(self, listening: socket.socket) -> None:
        self._desk.expect_users()
        while True:
            await anyio.wait_readable(listening)
            try:
                connected, _ = listening.accept()
                await self._connections.serve_connection(connected)
            except BlockingIOError:
                continue
            except OSError as error:  # no file descriptors left for now, or the client has just left
                logger.debug("cannot accept a connection: %s", error)
                await anyio.sleep(1)
            self._desk.expect_users()  # only now, because the imports of the first connection take a while


def list_sockets(folder: Path) -> Sequence[Path]:
    """Return the sockets in a folder, the latest last. Raises PermissionError if others can write to the folder."""
    if not folder.exists():
        return ()
    create_private_folder(folder)
    ages: dict[Path, float] = {}
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # its server has just ended
            ages[path] = path.stat().st_mtime
    return sorted(ages, key=ages.__getitem__)


def _open_socket(path: Path) -> socket.socket:
    """Open a listening socket without blocking, so that nothing is left behind by a shutdown. Raises OSError."""
    listening, unready = socket.socket(socket.AF_UNIX), path.with_suffix(".new")
    try:
        listening.setblocking(False)
        listening.bind(str(unready))
        unready.chmod(0o600)
        listening.listen()
        unready.rename(path)  # a socket without a listener would look stale
    except BaseException:
        listening.close()
        unready.unlink(missing_ok=True)
        raise
    return listening


def _remove_stale_sockets(folder: Path) -> None:
    for path in folder.glob(f"*{SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                with suppress(OSError):
                    path.unlink()
            except OSError:
                pass
