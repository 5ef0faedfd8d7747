"""The open connections of a server, and its running requests."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from mcp_bridge.runtime.descriptors import read_descriptor_limit
from mcp_bridge.transports.http.connection import ClientTimeouts, HttpConnection
from mcp_bridge.transports.http.exchange import Exchange
from mcp_bridge.transports.http.request import AsgiApp

RESERVED = 4
"""One in this many descriptors is reserved for other purposes: files, pipes and outgoing connections."""


class ConnectionPool:
    """The open connections of a server, and the tasks that handle their requests.

    Connections that would take a reserved descriptor are rejected. As long as they use at most half of the reserve,
    their clients have a second to read the response.

    If not `keeps_alive`, each response announces that its connection closes, so the client sends no further request on
    it (RFC 9112, 9.6).
    """

    def __init__(self, app: AsgiApp, timeouts: ClientTimeouts) -> None:
        self.app = app
        self.timeouts = timeouts
        self.keeps_alive = True
        self._loop = asyncio.get_running_loop()
        self.connections: set[HttpConnection] = set()
        self.tasks: dict[Exchange, asyncio.Task[None]] = {}
        self._emptied: asyncio.Event | None = None

    def open_connection(self) -> HttpConnection:
        return HttpConnection(self)

    def add(self, connection: HttpConnection) -> None:
        """Add a new connection, and reject it if it needs a reserved descriptor."""
        self.connections.add(connection)
        limit = read_descriptor_limit()
        if len(self.connections) > limit - limit // RESERVED:
            connection.reject(HTTPStatus.SERVICE_UNAVAILABLE)
            if len(self.connections) > limit - limit // (2 * RESERVED):
                connection.transport.abort()

    def start_exchange(self, exchange: Exchange) -> None:
        self.tasks[exchange] = self._loop.create_task(self._run_exchange(exchange))

    def discard(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)
        self._notify_if_empty()

    async def close(self, patience: float) -> None:
        """Close idle connections, and the others after their responses; after `patience` seconds abort what is left."""
        for connection in list(self.connections):
            connection.close_when_answered()
        self._emptied = asyncio.Event()
        self._notify_if_empty()
        try:
            async with asyncio.timeout(patience):
                await self._emptied.wait()
        except TimeoutError:
            for task in self.tasks.values():
                task.cancel()
            if self.tasks:
                await asyncio.wait(self.tasks.values(), timeout=patience)
            for connection in list(self.connections):
                connection.transport.abort()

    async def _run_exchange(self, exchange: Exchange) -> None:
        """Call the app. Never raises: SystemExit, which a tool may raise, would end the event loop."""
        try:
            await self.app(exchange.take_scope(), exchange.receive, exchange.send)
        except BaseException as error:
            await exchange.fail(error)
        finally:
            exchange.end()
            del self.tasks[exchange]
            self._notify_if_empty()

    def _notify_if_empty(self) -> None:
        if self._emptied is not None and not self.connections and not self.tasks:
            self._emptied.set()
