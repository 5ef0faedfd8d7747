"""Serving the app with uvicorn: a socket of our own, signals of our own, and an end that loses no call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator
from functools import partial

import anyio
import uvicorn

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.transports.ends import CLOSING, DRAIN, HURRY, Ending, wind_down
from mcp_bridge.transports.http.app import BridgeApp
from mcp_bridge.transports.http.guard import is_loopback

BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: they exit with the signal's number and lose handshake calls."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The bridge has the signals."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close everything; in a hurry uvicorn would leave the app's own end out."""
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()


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
    ending: Ending | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal or cancellation. At the first signal calls in flight have `drain` seconds.

    `ending` is who has the signals already; without one, and with `signals`, they are taken here.
    """
    server = Server(_config(app))
    _quiet()
    with ending or Ending(signals=signals) as taken:
        async with anyio.create_task_group() as tasks:
            await anyio.lowlevel.checkpoint()  # sources are imported meanwhile: a signal interrupts that
            draining = anyio.Event()
            tasks.start_soon(_drain, app, server, draining, drain)
            tasks.start_soon(_end_when_cancelled, server)
            started()
            with taken.heard(draining.set, partial(_hurry, app, server), drain):
                with anyio.CancelScope(shield=True):  # cancelled, uvicorn would leave its sockets and our lifespan
                    await server.serve(sockets=[bound])
            tasks.cancel_scope.cancel()


def _config(app: BridgeApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=app.patience.protocol(),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=math.ceil(CLOSING),
    )


async def _end_when_cancelled(server: Server) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        server.should_exit = True


async def _drain(app: BridgeApp, server: Server, draining: anyio.Event, patience: float) -> None:
    await draining.wait()
    app.ending = True
    app.endpoint.end_listeners()
    await wind_down(app.endpoint, app.ledger, patience)
    await app.close(HURRY if app.ledger.hurried else CLOSING)
    server.should_exit = True


def _hurry(app: BridgeApp, server: Server) -> None:
    app.ledger.hurry()
    server.force_exit = True  # and it leaves its connections as they are


def _quiet() -> None:
    """uvicorn reports open streams at the end as errors; they are meant to be cut once all is answered."""
    logging.getLogger("uvicorn.error").addFilter(_worth_saying)


def _worth_saying(record: logging.LogRecord) -> bool:
    cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut and "timeout graceful shutdown" not in record.getMessage()
