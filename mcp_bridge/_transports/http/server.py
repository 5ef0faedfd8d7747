"""Serves an endpoint over HTTP on a bound socket, until a signal."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import anyio

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.descriptors import raise_descriptor_limit
from mcp_bridge._transports.http.access import is_loopback
from mcp_bridge._transports.http.app import BridgeApp
from mcp_bridge._transports.http1.pool import ConnectionPool
from mcp_bridge._transports.shutdown import CLOSE_TIMEOUT, DRAIN_TIMEOUT, URGENT_TIMEOUT, ShutdownSignals, drain_calls

logger = logging.getLogger("mcp_bridge.transports")

BACKLOG = 2048
"""The maximum number of connections in the kernel before they are accepted."""
ACCEPTED = 64
"""The number of connections that the event loop accepts in one step, before excess ones are closed."""


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Return a bound socket. `has_token` is whether clients must send a token.

    Raises ConfigError for an address in reach of other machines without a token, and for an unavailable one.
    """
    if not has_token and not is_loopback(host):
        raise ConfigError(
            f"refusing to listen on {host}, which others can reach, without a token",
            where="http.host",
            hint="Put a secret into an environment variable and name it with --token-env NAME (http.token_env)",
        )
    try:
        # getaddrinfo would wrap a larger number around.
        if not 0 <= port < 1 << 16:
            raise OSError("a port is a number up to 65535")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # Connections inherit the option. asyncio would not set it for this socket.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound
    except (OSError, UnicodeError) as error:
        # A name that no DNS server could have raises UnicodeError.
        hint = "Choose another port, or 0 for any free one"
        raise ConfigError(f"cannot listen on {host}:{port}: {error}", where="http.port", hint=hint) from error


def format_address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: BridgeApp,
    bound: socket.socket,
    *,
    drain: float = DRAIN_TIMEOUT,
    handles_signals: bool = True,
    signals: ShutdownSignals | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Raise the soft limit of descriptors, and serve until a signal or cancellation.

    At the first signal, requests are accepted for `app.shutdown_delay` seconds, and then calls in flight have `drain`
    seconds. `signals` are handlers that the caller has installed. Without them, handlers are installed here, unless
    `handles_signals` is false.
    """
    raise_descriptor_limit()
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
                # The connections and the lifespan are closed in any case.
                with anyio.CancelScope(shield=True):
                    await _accept_connections(app, bound, shutdown)
            tasks.cancel_scope.cancel()


async def _accept_connections(app: BridgeApp, bound: socket.socket, shutdown: Shutdown) -> None:
    pool = shutdown.pool
    async with app.lifespan():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(pool.open_connection, sock=bound, backlog=ACCEPTED)
        # asyncio has also passed its own backlog to the kernel.
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
        """After `start_shutdown`: accept requests for the delay, wait for the calls in flight, and end the streams."""
        await self._begun.wait()
        app = self._app
        if app.shutdown_delay:
            # The proxy has time to read /health and to send its requests elsewhere.
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
