"""The private socket of a running bridge. It serves the operator API over HTTP to the user who runs the bridge.

The commands `approvals` and `top` find the socket of each bridge in a folder that no other user can enter. A server
opens its socket under a temporary name and renames it when it listens, because servers remove each other's sockets if
nothing listens there: a server that was killed leaves its file behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.endpoints import endpoints

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._runtime.platform.local_connection import LocalListener
    from mcp_bridge._transports.http1.asgi import Receive, Scope, Send
    from mcp_bridge._transports.http1.pool import ConnectionPool
    from mcp_bridge._web.api import OperatorApi

logger = logging.getLogger("mcp_bridge.approvals")

SUFFIX = ".sock"
BACKLOG = 128
"""The number of connections that may wait."""
MAX_TRIES = 5
"""The maximum number of attempts to open a socket while other servers remove the folder at their end."""
CLOSE_TIMEOUT = 0.5
"""Seconds in which pending responses can be sent when the server ends."""


class OperatorConnections:
    """The connections of the user who runs a server.

    The first connection imports the API and the HTTP server, and calls `build_api`. Most bridges never have one.
    """

    def __init__(self, build_api: Callable[[], OperatorApi]) -> None:
        self._build_api = build_api
        self._api: OperatorApi | None = None
        self._pool: ConnectionPool | None = None
        self._lock = anyio.Lock()

    async def serve_connection(self, connection: socket.socket) -> None:
        """Serve an accepted connection of this user."""
        try:
            pool = await self._open_pool()
            connection.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(pool.open_connection, connection)
        except BaseException:
            connection.close()
            raise

    async def _open_pool(self) -> ConnectionPool:
        async with self._lock:
            if self._pool is None:
                # The imports take up to 0.9 seconds. Calls continue meanwhile.
                await to_thread.run_sync(import_module, "mcp_bridge._web.api", abandon_on_cancel=True)
                from mcp_bridge._transports.http1.connection import ClientTimeouts
                from mcp_bridge._transports.http1.pool import ConnectionPool

                self._api = self._build_api()
                self._pool = ConnectionPool(self._serve_request, ClientTimeouts())
            return self._pool

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
    """The socket of a bridge, in `folder`. Users at terminals connect to it, to answer the questions at the desk."""

    def __init__(self, folder: Path, desk: QuestionDesk, build_api: Callable[[], OperatorApi]) -> None:
        self._folder = folder
        self._desk = desk
        self._connections = OperatorConnections(build_api)

    async def run(self) -> None:
        """Serve the socket until cancelled. If no socket can be opened, log the reason, and ask no user."""
        if not is_on_asyncio():
            logger.info("approvals in a terminal are not available: this event loop is not asyncio")
            return
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{SUFFIX}"
        try:
            listener = self._listen(path)
        except OSError as error:
            logger.warning("approvals in a terminal are not available: %s", error)
            return
        try:
            self._desk.is_open = True
            with listener.socket:
                await self._accept_connections(listener)
        finally:
            self._desk.is_open = False
            # Removing the folder fails if another server has a socket there.
            with suppress(OSError):
                path.unlink()
                self._folder.rmdir()
            await self._connections.close()

    def _listen(self, path: Path) -> LocalListener:
        for _ in range(MAX_TRIES):
            system.create_private_folder(self._folder)
            _remove_stale_sockets(self._folder)
            # Another server that has just ended may have removed the folder.
            with suppress(FileNotFoundError):
                return endpoints.open_listener(path, BACKLOG)
        raise FileNotFoundError(f"other servers keep removing {self._folder}")

    async def _accept_connections(self, listener: LocalListener) -> None:
        self._desk.expect_users()
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(listener.socket)
                try:
                    connection, _ = listener.socket.accept()
                    tasks.start_soon(self._admit_user, listener, connection)
                except BlockingIOError:
                    continue
                except OSError as error:
                    # There are no file descriptors left for now, or the client has just left.
                    logger.debug("cannot accept a connection: %s", error)
                    await anyio.sleep(1)

    async def _admit_user(self, listener: LocalListener, connection: socket.socket) -> None:
        """Serve a connection, unless it is of another user."""
        try:
            is_admitted = await listener.admit(connection)
        except BaseException:
            connection.close()
            raise
        if not is_admitted:
            logger.warning("rejected a connection from another user to the private socket")
            connection.close()
            return
        with suppress(OSError):
            await self._connections.serve_connection(connection)
        # The imports of the first connection take up to 0.9 seconds, so the time for users to connect begins anew.
        self._desk.expect_users()


def list_sockets(folder: Path) -> Sequence[Path]:
    """Return the sockets in a folder, the latest last. Raises PermissionError if others can write to the folder."""
    if not folder.exists():
        return ()
    system.create_private_folder(folder)
    ages: dict[Path, float] = {}
    for path in folder.glob(f"*{SUFFIX}"):
        # The server of a socket may just have ended.
        with suppress(FileNotFoundError):
            ages[path] = path.stat().st_mtime
    return sorted(ages, key=ages.__getitem__)


def _remove_stale_sockets(folder: Path) -> None:
    """Remove the sockets that no process listens at. Servers that were killed have left them behind."""
    for path in folder.glob(f"*{SUFFIX}"):
        if endpoints.is_stale(path):
            with suppress(OSError):
                path.unlink()
