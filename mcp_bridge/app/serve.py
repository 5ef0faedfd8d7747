"""Serves a bridge: over stdio, over HTTP, or as an ASGI app inside another."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.contracts.errors import BridgeError
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.state import State
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.runtime.descriptors import Pipes, private, unread
from mcp_bridge.runtime.event_loop import LoopFactory, lasting
from mcp_bridge.transports.ends import Ending

if TYPE_CHECKING:
    from mcp_bridge.transports.http.app import BridgeApp, HttpOptions

Announce = Callable[[str], None]


def serve(
    tools: ToolRegistry | Bridge,
    *,
    http: str | int | None = None,
    token: str | None = None,
    state: State | None = None,
) -> None:
    """Serve a registry (or a bridge) and return when it is over: over stdio, or with `http` over HTTP.

    `http` is a port on 127.0.0.1, or `HOST:PORT`; `token` is the bearer token that clients must send, and must
    be given for addresses beyond this machine. `state` says how calls wait for answers. Raises ConfigError for an
    address that cannot be had.
    """
    bridge = as_bridge(tools, token=token, state=state)
    if http is None:
        with Ending() as ending, private() as pipes:
            run(over_stdio, bridge, pipes, ending)
        return
    from mcp_bridge.transports.http.app import HttpOptions
    from mcp_bridge.transports.http.guard import Access

    host, port = split_address(http)
    options = HttpOptions(access=Access.to(host, token=token))
    with Ending() as ending, unread():
        run(over_http, bridge, host, port, options, _to_stderr, ending)


def asgi_app(
    tools: ToolRegistry | Bridge,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    state: State | None = None,
) -> BridgeApp:
    """An ASGI app with /mcp, /sse, /messages and /health, to serve or to mount.

    `host` is the name that clients use (the Host header is checked). `state` says how calls wait for answers. Mounted
    in another app, give that one `lifespan=app.lifespan`.
    """
    from mcp_bridge.transports.http.app import BridgeApp, HttpOptions
    from mcp_bridge.transports.http.guard import Access

    bridge = as_bridge(tools, token=token, state=state)
    return BridgeApp(bridge.endpoint, HttpOptions(access=Access.to(host, token=token)), around=bridge.running)


async def over_stdio(bridge: Bridge, pipes: Pipes, ending: Ending | None = None) -> None:
    """Serve one client over private pipes; `ending` is who has the signals already.

    Raises ConfigError or SourceError when there is nothing to serve.
    """
    from mcp_bridge.transports import stdio

    async with _started(bridge, ending):
        await stdio.serve(bridge.endpoint, pipes, drain=bridge.drain, ending=ending)


async def over_http(
    bridge: Bridge,
    host: str,
    port: int,
    options: HttpOptions,
    announce: Announce,
    ending: Ending | None = None,
) -> None:
    """Serve over HTTP; `announce` gets the base URL once connections are taken. Raises as `over_stdio` does."""
    from mcp_bridge.transports.http.app import BridgeApp
    from mcp_bridge.transports.http.serve import address, listen
    from mcp_bridge.transports.http.serve import serve as serve_http

    bound = listen(host, port, token=options.access.token)
    async with _started(bridge, ending, lambda: announce(address(bound))):
        await serve_http(BridgeApp(bridge.endpoint, options), bound, drain=bridge.drain, ending=ending)


@contextlib.asynccontextmanager
async def _started(
    bridge: Bridge, ending: Ending | None, ready: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Run the sources, and say when they are `ready`; a start that must be refused ends the block and is raised."""
    with (
        anyio.CancelScope() as scope,
        ending.starting(scope.cancel) if ending is not None else contextlib.nullcontext(),
    ):
        async with _running(bridge, ready):
            yield


@contextlib.asynccontextmanager
async def _running(bridge: Bridge, ready: Callable[[], None]) -> AsyncIterator[None]:
    refused: list[BridgeError] = []

    async def watch(scope: anyio.CancelScope) -> None:
        try:
            await bridge.started()
            ready()
        except BridgeError as error:
            refused.append(error)
            scope.cancel()

    async with bridge.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope)
        yield
        tasks.cancel_scope.cancel()
    if refused:
        raise refused[0]


def run(main: Callable[..., Awaitable[Any]], *args: Any, loop_factory: LoopFactory | None = None) -> Any:
    """Run on a loop that tools cannot end: asyncio's own, unless `loop_factory` makes another one."""
    return anyio.run(main, *args, backend="asyncio", backend_options={"loop_factory": loop_factory or lasting()})


def as_bridge(tools: ToolRegistry | Bridge, *, token: str | None = None, state: State | None = None) -> Bridge:
    """A bridge around a registry, whose lists are not for sharing where a token is asked for; a bridge as it is."""
    if isinstance(tools, Bridge):
        bridge = tools
    else:
        bridge = Bridge(tools, identity=Identity(private=token is not None), state=state)
    if token is not None:
        bridge.hide([token])
    return bridge


def split_address(given: str | int) -> tuple[str, int]:
    """`8808`, `127.0.0.1:8808` or `[::1]:8808` as host and port. Raises ValueError for anything else."""
    host, _, port = str(given).rpartition(":")
    if not port.isdecimal():
        raise ValueError(f"'{given}' is not a port or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _to_stderr(url: str) -> None:
    print(f"Serving on {url}/mcp", file=sys.stderr, flush=True)
