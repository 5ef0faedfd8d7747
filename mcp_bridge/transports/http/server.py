"""Serves an endpoint over HTTP on a bound socket, until a signal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import anyio

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime.descriptors import raise_descriptor_limit
from mcp_bridge.transports.http.access import is_loopback
from mcp_bridge.transports.http.app import BridgeApp
from mcp_bridge.transports.http.bearer import Authenticator
from mcp_bridge.transports.http.connection_pool import ConnectionPool
from mcp_bridge.transports.shutdown import CLOSE_TIMEOUT, DRAIN_TIMEOUT, HURRIED_TIMEOUT, ShutdownSignals, drain_calls

BACKLOG = 2048
"""Connections that may wait in the kernel to be accepted."""
ACCEPTED = 64
"""How many connections the event loop accepts at once, before excess ones are closed."""


def listen(host: str, port: int, *, token: str | Authenticator | None) -> socket.socket:
    """Return a bound socket. `token` is the token that clients must send, or an authenticator.

    Raises ConfigError for an address that other machines can reach without a token, and for one that is unavailable.
    """
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"refusing to listen on {host}, which others can reach, without a token",
            where="http.host",
            hint="Put a secret into an environment variable and name it with --token-env NAME (http.token_env)",
        )
    try:
        if not 0 <= port < 1 << 16:  # getaddrinfo would wrap it around
            raise OSError("a port is a number up to 65535")
        family, _, _, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.create_server(resolved[:2], family=family, backlog=BACKLOG)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it; asyncio would not set it
        return bound
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no DNS server could have
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
    signals: bool = True,
    ending: ShutdownSignals | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Raise the soft limit of descriptors, and serve until a signal or cancellation.

    At the first signal, calls in flight have `drain` seconds. `ending` handles the signals already; without it they are
    handled here, unless `signals` is false.
    """
    raise_descriptor_limit()
    stopped = anyio.Event()
    with ending or ShutdownSignals(signals=signals) as handled:
        async with anyio.create_task_group() as tasks:
            await anyio.lowlevel.checkpoint()  # sources are imported meanwhile: a signal interrupts that
            draining = anyio.Event()
            tasks.start_soon(_drain_when_signalled, app, draining, stopped, drain)
            tasks.start_soon(_stop_when_cancelled, stopped)
            started()
            with handled.handle_while_serving(draining.set, app.counter.shorten_waits, drain):
                with anyio.CancelScope(shield=True):  # the connections and the lifespan are closed in any case
                    await _accept_connections(app, bound, stopped)
            tasks.cancel_scope.cancel()


async def _accept_connections(app: BridgeApp, bound: socket.socket, stopped: anyio.Event) -> None:
    pool = ConnectionPool(app, app.timeouts)
    async with app.lifespan():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(pool.open_connection, sock=bound, backlog=ACCEPTED)
        bound.listen(BACKLOG)  # asyncio also uses its own backlog for the kernel
        await stopped.wait()
        server.close()
        await pool.close(HURRIED_TIMEOUT if app.counter.hurried else CLOSE_TIMEOUT)


async def _stop_when_cancelled(stopped: anyio.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        stopped.set()


async def _drain_when_signalled(app: BridgeApp, draining: anyio.Event, stopped: anyio.Event, patience: float) -> None:
    await draining.wait()
    app.begin_shutdown()
    app.endpoint.close_subscriptions()
    await drain_calls(app.endpoint, app.counter, patience)
    await app.close(HURRIED_TIMEOUT if app.counter.hurried else CLOSE_TIMEOUT)
    stopped.set()
