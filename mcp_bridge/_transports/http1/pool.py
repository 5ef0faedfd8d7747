"""ConnectionPool: the open connections of a server, and the tasks of their requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from itertools import islice

from mcp_bridge._runtime.event_loop import OWN_TASK
from mcp_bridge._runtime.platform import system
from mcp_bridge._transports.http1.asgi import AsgiApp
from mcp_bridge._transports.http1.connection import ClientTimeouts, HttpConnection
from mcp_bridge._transports.http1.exchange import Exchange

RESERVED_SHARE = 4
"""A fourth of the descriptors is reserved for other purposes: files, pipes and outgoing connections."""
OTHERS_SHARE = 8
"""An eighth of the connections is reserved for other addresses than the one with the most connections."""
CANDIDATES = 64
"""The maximum number of waiting connections that are compared when one has to be closed."""


class ConnectionPool:
    """The open connections of a server, and the tasks of their requests.

    The number of connections is limited by the descriptors of the process, of which some are reserved
    (`RESERVED_SHARE`), and no address can have all of them (`OTHERS_SHARE`). If a new connection would take a reserved
    place, the pool closes another connection, which waits for its client and belongs to an address with at least as
    many connections. If there is none, the new connection is rejected. Its client has a second to read the response.
    Rejected connections use at most half of the reserved descriptors.

    Attributes:
        keeps_alive: If it is False, each response announces the end of its connection, so the client sends no
            further request on it (RFC 9112, 9.6).
    """

    def __init__(self, app: AsgiApp, timeouts: ClientTimeouts) -> None:
        self.app = app
        self.timeouts = timeouts
        self.keeps_alive = True
        self._loop = asyncio.get_running_loop()
        self.connections: set[HttpConnection] = set()
        # The connections that wait for a request or the rest of it, the longest first.
        self._waiting: dict[HttpConnection, None] = {}
        # The number of connections by address.
        self._counts: Counter[str] = Counter()
        self.tasks: dict[Exchange, asyncio.Task[None]] = {}
        self._emptied: asyncio.Event | None = None

    def open_connection(self) -> HttpConnection:
        return HttpConnection(self)

    def add(self, connection: HttpConnection) -> None:
        peer = connection.peer
        descriptors = system.read_descriptor_limit()
        places = descriptors - descriptors // RESERVED_SHARE
        has_share = self._counts[peer] < places - places // OTHERS_SHARE
        is_accepted = has_share and len(self.connections) < places
        if not is_accepted:
            is_accepted = self._close_waiting(peer, is_own=not has_share)
        self.connections.add(connection)
        self._counts[peer] += 1
        if is_accepted:
            self.mark_waiting(connection)
            return
        connection.reject(HTTPStatus.SERVICE_UNAVAILABLE)
        if len(self.connections) > descriptors - descriptors // (2 * RESERVED_SHARE):
            connection.transport.abort()

    def _close_waiting(self, peer: str, *, is_own: bool) -> bool:
        """Close a waiting connection to make room for one of `peer`. Return whether there was one.

        Choose the address with the most connections, and its connection with the longest wait. With `is_own`, choose
        among the connections of `peer`. A connection with unsent output stays.
        """
        victim = None
        # An address with fewer connections than `peer` keeps them.
        largest_count = self._counts[peer] - 1
        for connection in islice(self._waiting, CANDIDATES):
            if is_own and connection.peer != peer:
                continue
            count = self._counts[connection.peer]
            if count > largest_count and not connection.transport.get_write_buffer_size():
                victim = connection
                largest_count = count
        if victim is None:
            return False
        self.mark_busy(victim)
        victim.transport.abort()
        return True

    def mark_waiting(self, connection: HttpConnection) -> None:
        # Move the connection to the end, because its wait begins now.
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def mark_busy(self, connection: HttpConnection) -> None:
        self._waiting.pop(connection, None)

    def start_exchange(self, exchange: Exchange) -> None:
        self.tasks[exchange] = self._loop.create_task(self._run_exchange(exchange), name=OWN_TASK)

    def discard(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)
        self._waiting.pop(connection, None)
        self._counts[connection.peer] -= 1
        if not self._counts[connection.peer]:
            del self._counts[connection.peer]
        self._notify_if_empty()

    async def close(self, timeout: float) -> None:
        """Close idle connections, and the others after their responses. After `timeout` seconds, abort the rest."""
        for connection in list(self.connections):
            connection.close_when_answered()
        self._emptied = asyncio.Event()
        self._notify_if_empty()
        try:
            async with asyncio.timeout(timeout):
                await self._emptied.wait()
        except TimeoutError:
            for task in self.tasks.values():
                task.cancel()
            if self.tasks:
                await asyncio.wait(self.tasks.values(), timeout=timeout)
            for connection in list(self.connections):
                connection.transport.abort()

    async def _run_exchange(self, exchange: Exchange) -> None:
        """Call the app. This never raises, because the SystemExit of a tool would end the event loop."""
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
