"""Serving the app with uvicorn: a socket of our own, signals of our own, and an end that loses no call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

import anyio
import uvicorn

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.transports.ends import on_signals
from mcp_bridge.transports.http.app import BridgeApp
from mcp_bridge.transports.http.guard import is_loopback

DRAIN = 10.0
"""Seconds that calls in flight have after a signal."""
CLOSING = 1
"""Seconds that open streams have to close once every call is answered."""
BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: they exit with the signal's number and lose handshake calls."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The bridge has the signals."""
        yield


def listen(host: str, port: int, *, token: str | None) -> socket.socket:
    """A bound socket. Raises ConfigError for an address beyond this machine without a token, or one that is taken."""
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
    except (OSError, UnicodeError) as error:  # a name that no name server could have
        hint = "Choose another port, or 0 for any free one"
        raise ConfigError(f"cannot listen on {host}:{port}: {error}", where="http.port", hint=hint) from error


def address(bound: socket.socket) -> str:
    """The base URL of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: BridgeApp,
    bound: socket.socket,
    *,
    drain: float = DRAIN,
    signals: bool = True,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal or cancellation. At the first signal calls in flight have `drain` seconds."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=CLOSING,
    )
    server = Server(config)
    _quiet()
    async with anyio.create_task_group() as tasks:
        draining = anyio.Event()

        def now() -> None:
            server.force_exit = server.should_exit = True

        if signals:
            await tasks.start(on_signals, draining.set, now)
        tasks.start_soon(_drain, app, server, draining, drain)
        tasks.start_soon(_end_when_cancelled, server)
        started()
        with anyio.CancelScope(shield=True):  # cancelled itself, uvicorn leaves its sockets and our lifespan behind
            await server.serve(sockets=[bound])
        tasks.cancel_scope.cancel()


async def _end_when_cancelled(server: Server) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        server.should_exit = True


async def _drain(app: BridgeApp, server: Server, draining: anyio.Event, patience: float) -> None:
    await draining.wait()
    app.ending = True
    app.endpoint.end_listeners()
    await app.ledger.idle(patience)
    server.should_exit = True


def _quiet() -> None:
    """uvicorn reports open streams at the end as errors; they are meant to be cut once all is answered."""
    logging.getLogger("uvicorn.error").addFilter(_worth_saying)


def _worth_saying(record: logging.LogRecord) -> bool:
    cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut and "timeout graceful shutdown" not in record.getMessage()
