"""The transport of shared servers: many clients over one local endpoint, each with lines as over stdio.

A connection begins in one of two ways. A client sends a line with a random token of its choice, which stays its
identity if it connects again. The server responds with a line of JSON, `{"drain": 10.0}`, and then both send messages.
A connection that begins with an HTTP request is for the operator API, and one that begins with `STOP` ends the server
as SIGTERM does, because Windows has no such signal.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._protocol.peer.connection import RequestCounter
from mcp_bridge._protocol.peer.line_writer import MessageWriter
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.local_connection import LocalListener
from mcp_bridge._runtime.platform.streams import streams
from mcp_bridge._runtime.stdio_descriptors import Descriptor, make_socket_descriptor
from mcp_bridge._runtime.tasks import Notifier, TaskOwner, own_tasks
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._transports.shutdown import CLOSE_TIMEOUT, DRAIN_TIMEOUT, ShutdownSignals, drain_calls
from mcp_bridge._transports.stdio import StdioReader

logger = logging.getLogger("mcp_bridge.shared")

TOKEN_SIZE = 32
"""The number of characters of a client's token. A newline follows it."""
GREETING_TIMEOUT = 10.0
"""Seconds in which a client has to send its token."""
HTTP_METHODS = (b"GET ", b"POST")
"""The first bytes of requests of the operator API. Tokens have no upper-case letters."""
STOP = b"STOP"
"""The first bytes of a request to stop."""
RETRY_INTERVAL = 0.1
"""Seconds after which an idle server tries to end again, if a client was just connecting."""


class SharedListener(NamedTuple):
    """The local endpoint of a shared server.

    Attributes:
        endpoint: The listening socket.
        lock: The lock that a client holds while it starts or connects to a server. It yields whether it was free.
        is_current: Returns False once new clients start another server, because the settings have changed.
        files: The files of the server, such as its socket. They are removed at its end.
    """

    endpoint: LocalListener
    lock: Callable[[], AbstractContextManager[bool]]
    is_current: Callable[[], bool]
    files: tuple[Path, ...] = ()


OperatorHandler = Callable[[socket.socket, Callable[[], int]], Awaitable[None]]
"""Serves and closes the connection of an operator. The function returns the number of connected clients."""


async def serve(
    endpoint: Endpoint,
    listener: SharedListener,
    serve_operator: OperatorHandler,
    *,
    idle: float,
    drain: float = DRAIN_TIMEOUT,
    signals: ShutdownSignals | None = None,
) -> None:
    """Serve clients until a signal arrives, or until none has been connected for `idle` seconds.

    After a signal, the calls in flight have `drain` seconds to end.
    """
    system.raise_descriptor_limit()
    with signals or ShutdownSignals() as active_signals:
        async with anyio.create_task_group() as group:
            await group.start(endpoint.run)
            async with own_tasks() as tasks:
                server = LocalSocketServer(endpoint, listener, serve_operator, tasks, idle=idle, drain=drain)
                shorten_waits = server.counter.shorten_waits
                with active_signals.handle_while_serving(lambda: group.start_soon(server.stop), shorten_waits, drain):
                    await server.run()
            group.cancel_scope.cancel()


class LocalSocketServer:
    """Accepts the clients of a shared server. Each has its own session, principal and quotas."""

    def __init__(
        self,
        endpoint: Endpoint,
        listener: SharedListener,
        serve_operator: OperatorHandler,
        tasks: TaskOwner,
        *,
        idle: float,
        drain: float,
    ) -> None:
        self._endpoint = endpoint
        self._listener = listener
        self._serve_operator = serve_operator
        self._tasks = tasks
        self._idle = idle
        self._drain = drain
        self.counter = RequestCounter()
        # The readers of clients, without operators and clients that have sent no token yet.
        self._readers: set[StdioReader] = set()
        # The number of all open connections.
        self._connected = 0
        self._change = Notifier()
        self._accept_scope = anyio.CancelScope()
        self._was_used = False
        self._is_stopping = False

    async def run(self) -> None:
        """Serve clients until the server is idle or stopped, and all of them are served."""
        self._listener.endpoint.socket.setblocking(False)
        async with anyio.create_task_group() as clients:
            clients.start_soon(self._stop_when_idle)
            with self._listener.endpoint.socket, self._accept_scope:
                while True:
                    await anyio.wait_readable(self._listener.endpoint.socket)
                    try:
                        self._accept_pending(clients)
                    except OSError as error:
                        # The process has no free descriptor. A connection may end soon.
                        logger.warning("cannot accept a client: %s", error)
                        await anyio.sleep(1)

    async def stop(self) -> None:
        """Let the calls in flight finish, and end all connections. New clients start another server."""
        self._close()
        for reader in self._readers:
            reader.is_draining = True
        self._endpoint.close_subscriptions()
        await drain_calls(self._endpoint, self.counter, self._drain)
        for reader in list(self._readers):
            reader.stop()

    def _close(self) -> None:
        """Stop accepting clients. The next client starts another server."""
        if self._is_stopping:
            return
        self._is_stopping = True
        # If another server has replaced the socket, the files are those of the other server.
        if self._listener.endpoint.owns_path():
            for path in self._listener.files:
                path.unlink(missing_ok=True)
        self._accept_scope.cancel()
        self._change_connections(0)

    def _accept_pending(self, clients: TaskGroup) -> None:
        """Accept the waiting clients. Raises OSError."""
        with suppress(BlockingIOError):
            while True:
                client, _ = self._listener.endpoint.socket.accept()
                clients.start_soon(self._admit_client, client)

    async def _stop_when_idle(self) -> None:
        """Close the socket once the server has been idle for long enough, and no client is connecting."""
        while not self._is_stopping:
            timeout: float | None = self._idle
            if self._connected:
                timeout = None
            elif self._was_used and not self._listener.is_current():
                # No further client will connect.
                timeout = 0.0
            with anyio.move_on_after(timeout):
                await self._change.wait_for_notification()
                continue
            with self._listener.lock() as is_locked:
                # A client may have connected, but not be accepted yet.
                poll = streams.make_poll()
                poll.register(self._listener.endpoint.socket.fileno(), streams.POLLIN)
                if is_locked and not self._connected and not poll.poll(0):
                    logger.info("the shared server ends, because no client is connected")
                    self._close()
                    return
            await anyio.sleep(RETRY_INTERVAL)

    async def _admit_client(self, client: socket.socket) -> None:
        """Serve a client, unless it is of another user."""
        with client:
            if await self._listener.endpoint.admit(client):
                await self._serve_client(client)
            else:
                logger.warning("rejected a connection from another user to the shared server")

    async def _serve_client(self, client: socket.socket) -> None:
        # The socket is polled before each read. A write that is not possible immediately has to wait, not to fail.
        client.setblocking(True)
        self._change_connections(1)
        try:
            beginning = await _peek(client)
            if beginning == STOP:
                await self.stop()
                return
            if beginning in HTTP_METHODS:
                await self._serve_operator(client.dup(), lambda: len(self._readers))
                return
            token = await _read_token(make_socket_descriptor(client))
            if token is not None and not self._is_stopping:
                client.sendall(json.dumps({"drain": self._drain}).encode() + b"\n")
                self._was_used = True
                await self._serve_messages(client, token)
        except OSError as error:
            logger.debug("a client has disconnected: %s", error)
        finally:
            self._change_connections(-1)

    async def _serve_messages(self, connected: socket.socket, token: str) -> None:
        writer = MessageWriter(make_socket_descriptor(connected))
        principal = f"local/{token}"
        key = f"principal/{principal}"
        client = self._endpoint.connect(
            writer, self._tasks, self.counter, principal=principal, client=key, transport="socket"
        )
        reader = StdioReader(make_socket_descriptor(connected), writer, client, on_end=lambda: None)

        async def write() -> None:
            await writer.run()
            # The client does not read any more.
            reader.stop()

        self._readers.add(reader)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(write)
                await reader.run()
                # A client closes its input once it has all responses, so there is nothing to wait for.
                client.close()
                await writer.flush(CLOSE_TIMEOUT)
                group.cancel_scope.cancel()
        finally:
            self._readers.discard(reader)

    def _change_connections(self, difference: int) -> None:
        self._connected += difference
        self._change.notify()


async def _peek(client: socket.socket) -> bytes:
    """Return the first four bytes of a connection, without reading them, or fewer if it sends nothing else."""
    with anyio.move_on_after(GREETING_TIMEOUT):
        await anyio.wait_readable(client)
        return client.recv(4, socket.MSG_PEEK)
    return b""


async def _read_token(source: Descriptor) -> str | None:
    """Return the token that a client sends first, or None if it sends something else."""
    data = b""
    with anyio.move_on_after(GREETING_TIMEOUT):
        while len(data) <= TOKEN_SIZE:
            piece = await source.read(TOKEN_SIZE + 1 - len(data))
            if not piece:
                return None
            data += piece
    token = data[:-1].decode(errors="replace")
    if data.endswith(b"\n") and token.isalnum() and len(token) == TOKEN_SIZE:
        return token
    return None
