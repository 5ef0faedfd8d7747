"""Serves a BridgeApp over HTTP on a bound socket, until a signal arrives."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import anyio

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.platform import system
from mcp_bridge._transports.http.access import is_loopback
from mcp_bridge._transports.http.app import BridgeApp
from mcp_bridge._transports.http1.pool import ConnectionPool
from mcp_bridge._transports.shutdown import CLOSE_TIMEOUT, DRAIN_TIMEOUT, URGENT_TIMEOUT, ShutdownSignals, drain_calls

logger = logging.getLogger("mcp_bridge.transports")

BACKLOG = 2048
"""The maximum number of connections that wait in the kernel until the server accepts them."""
ACCEPT_BATCH = 64
"""The maximum number of connections that the event loop accepts in one step. After it, the pool can close some."""


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Return a bound socket. `has_token` is whether clients must send a token.

    Raises ConfigError if other machines can reach the address and no token is required, or if it is not available.
    """
    if not has_token and not is_loopback(host):
        raise ConfigError(
            f"refusing to listen on {host}, which others can reach, without a token",
            where="http.host",
            hint="Put a secret into an environment variable and name it with --token-env NAME (http.token_env)",
        )
    try:
        # getaddrinfo takes a larger number modulo 65536.
        if not 0 <= port < 1 << 16:
            raise OSError("a port is a number up to 65535")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # Connections inherit the option. asyncio would not set it for this socket.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound
    except (OSError, UnicodeError) as error:
        # UnicodeError is raised for a text that cannot be a name in DNS.
        hint = "Choose another port, or 0 for any free one"
        raise ConfigError(f"cannot listen on {host}:{port}: {error}", where="http.port", hint=hint) from error


def format_address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: BridgeApp,
    bound: socket.socket | None,
    *,
    drain: float = DRAIN_TIMEOUT,
    handles_signals: bool = True,
    signals: ShutdownSignals | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal arrives or the task is cancelled. Raises the soft limit of descriptors for many connections.

    A worker has no bound socket, but receives its connections from `app.workers`.

    At the first signal, requests are accepted for `app.shutdown_delay` seconds, and then calls in flight have `drain`
    seconds. `signals` are handlers the caller has installed. Without them, handlers are installed here, unless
    `handles_signals` is false.
    """
    system.raise_descriptor_limit()
    shutdown = Shutdown(app, ConnectionPool(app, app.timeouts))
    with signals or ShutdownSignals(is_enabled=handles_signals) as active_signals:
        async with anyio.create_task_group() as tasks:
            # Sources are imported in the meantime, and a signal interrupts the import.
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(shutdown.run_when_signalled, drain)
            tasks.start_soon(shutdown.stop_when_cancelled)
            started()
            timeout = app.shutdown_delay + drain
            with active_signals.handle_while_serving(shutdown.start_shutdown, shutdown.shorten_waits, timeout):
                # After a cancellation, too, the connections and the lifespan are closed in order.
                with anyio.CancelScope(shield=True):
                    await _accept_connections(app, bound, shutdown)
            tasks.cancel_scope.cancel()


async def _accept_connections(app: BridgeApp, bound: socket.socket | None, shutdown: Shutdown) -> None:
    pool = shutdown.pool
    async with app.lifespan():
        if app.workers is not None:
            app.workers.accept_connections(pool)
            await shutdown.stopped.wait()
            await app.workers.leave(pool)
        else:
            assert bound is not None
            loop = asyncio.get_running_loop()
            server = await loop.create_server(pool.open_connection, sock=bound, backlog=ACCEPT_BATCH)
            # asyncio uses its parameter `backlog` as the size of a batch, and passes it to the kernel, too.
            bound.listen(BACKLOG)
            await shutdown.stopped.wait()
            server.close()
        await pool.close(URGENT_TIMEOUT if app.counter.is_urgent else CLOSE_TIMEOUT)


class Shutdown:
    """The shutdown of a server, from the first signal until `stopped` is set."""

    def __init__(self, app: BridgeApp, pool: ConnectionPool) -> None:
        self.pool = pool
        self.stopped = anyio.Event()
        self._app = app
        self._begun = anyio.Event()
        self._is_urgent = anyio.Event()

    def start_shutdown(self) -> None:
        self._begun.set()

    def shorten_waits(self) -> None:
        """Shorten all waits, after a second signal."""
        self._app.counter.shorten_waits()
        self._is_urgent.set()

    async def stop_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.stopped.set()

    async def run_when_signalled(self, drain: float) -> None:
        """Wait for `start_shutdown`. Then accept requests for the delay, drain the calls, and end the streams."""
        await self._begun.wait()
        app = self._app
        is_replaced = False
        if app.workers is not None:
            app.workers.retire()
            is_replaced = app.workers.has_others()
        if app.shutdown_delay and not is_replaced:
            # In this time, a proxy reads /health, and sends its requests to other servers.
            delay = app.shutdown_delay
            logger.warning("shutting down: requests are accepted for %g seconds, or until a second signal", delay)
            app.is_leaving = True
            self.pool.keeps_alive = False
            with anyio.move_on_after(delay):
                await self._is_urgent.wait()
        app.begin_shutdown()
        app.endpoint.close_subscriptions()
        if not await app.counter.wait_until_idle(0):
            logger.warning("shutting down: running calls have %g seconds to finish; a second signal ends them", drain)
        await drain_calls(app.endpoint, app.counter, drain)
        await app.close(URGENT_TIMEOUT if app.counter.is_urgent else CLOSE_TIMEOUT)
        self.stopped.set()
