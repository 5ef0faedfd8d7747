"""Serves a bridge over stdio, HTTP or a Unix socket, or as an ASGI app.

The functions in the first half are for programs, the others for the command line. All run the sources while they serve,
and end when their client disconnects or a signal arrives.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import BridgeError, ConfigError
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.server_info import Lifespan, ServerInfo
from mcp_bridge._contracts.state import State
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._runtime.event_loop import LoopFactory, make_loop_factory
from mcp_bridge._runtime.stdio_descriptors import StdioPipes, detach_stdin, reserve_stdio
from mcp_bridge._transports.shutdown import ShutdownSignals
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from mcp_bridge._server.prometheus import PrometheusMetrics
    from mcp_bridge._settings import Settings
    from mcp_bridge._transports.http.app import BridgeApp, HttpOptions
    from mcp_bridge._transports.http.worker_group import WorkerGroup
    from mcp_bridge._transports.local_socket import SharedListener
    from mcp_bridge._web.api import OperatorApi


def serve(
    tools: ToolRegistry | Bridge,
    *,
    http: str | int | None = None,
    token: str | None = None,
    state: State | None = None,
    name: str | None = None,
    version: str | None = None,
    title: str | None = None,
    instructions: str | None = None,
    lifespan: Lifespan | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
) -> None:
    """Serve a registry or a bridge over stdio, or over HTTP, until the client disconnects or a signal arrives.

    Args:
        tools: The registry or bridge to serve.
        http: A port on 127.0.0.1, or `HOST:PORT`. Without it, the bridge serves over stdio.
        token: The bearer token that clients must send. Addresses other than localhost require one.
        state: How calls that wait for the user are stored.
        name: The name of the server.
        version: Its version.
        title: Its name for users.
        instructions: How a model should use it.
        lifespan: A function that returns an async context manager, which is entered while serving. Its value is
            `ctx.lifespan`.
        hosts: Further host names that clients use (HTTP); other values of the Host header are rejected.
        origins: Web pages that may call the server (HTTP), such as `https://example.com`.

    Raises:
        ConfigError: The address is not available.
        SourceError: The lifespan cannot start.

    >>> registry = ToolRegistry()
    >>> serve(registry, http="8808 or so")
    Traceback (most recent call last):
    ValueError: '8808 or so' is not a port or HOST:PORT
    """
    info = ServerInfo(name=name, version=version, title=title, instructions=instructions, lifespan=lifespan)
    bridge = to_bridge(tools, token=token, state=state, info=info)
    if http is None:
        with ShutdownSignals() as signals, reserve_stdio() as pipes:
            run_on_event_loop(serve_stdio, bridge, pipes, signals)
        return
    from mcp_bridge._transports.http.access import Access
    from mcp_bridge._transports.http.app import HttpOptions

    host, port = split_address(http)
    options = HttpOptions(access=Access.for_host(host, hosts=hosts, origins=origins, token=token))

    def announce(url: str) -> None:
        print(f"Serving on {url}/mcp", file=sys.stderr, flush=True)

    with ShutdownSignals() as signals, detach_stdin():
        run_on_event_loop(serve_http, bridge, host, port, options, announce, signals)


def asgi_app(
    tools: ToolRegistry | Bridge,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    state: State | None = None,
    name: str | None = None,
    version: str | None = None,
    title: str | None = None,
    instructions: str | None = None,
    lifespan: Lifespan | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
) -> BridgeApp:
    """Return an ASGI app with /mcp, /sse, /messages and /health, to serve or to mount in another app.

    The other app needs `lifespan=app.lifespan`, which starts the sources and runs the `lifespan` that is given here.

    Args:
        tools: The registry or bridge to serve.
        token: The bearer token that clients must send.
        host: The host name that clients use; other values of the Host header are rejected.
        state: How calls that wait for the user are stored.
        name: The name of the server.
        version: Its version.
        title: Its name for users.
        instructions: How a model should use it.
        lifespan: A function that returns an async context manager, which is entered while serving. Its value is
            `ctx.lifespan`.
        hosts: Further host names that clients use.
        origins: Web pages that may call the server, such as `https://example.com`.

    >>> app = asgi_app(ToolRegistry(), token="a-long-secret", name="weather")
    >>> app.lifespan is not None
    True
    """
    from mcp_bridge._transports.http.access import Access
    from mcp_bridge._transports.http.app import BridgeApp, HttpOptions

    info = ServerInfo(name=name, version=version, title=title, instructions=instructions, lifespan=lifespan)
    bridge = to_bridge(tools, token=token, state=state, info=info)
    access = Access.for_host(host, hosts=hosts, origins=origins, token=token)
    options = HttpOptions(access=access, list_states=bridge.list_states)
    return BridgeApp(bridge.endpoint, options, around=bridge.run_sources)


async def serve_stdio(
    bridge: Bridge,
    pipes: StdioPipes,
    signals: ShutdownSignals | None = None,
    on_ready: Callable[[], None] = lambda: None,
    *,
    on_import: Callable[[], None] = lambda: None,
) -> None:
    """Serve one client over `pipes`, which `reserve_stdio` has made from stdin and stdout.

    Args:
        bridge: The bridge to serve.
        pipes: The pipes to the client.
        signals: The signal handlers that the caller has installed.
        on_ready: Called once the sources have started.
        on_import: Called once the modules of the server are imported, before the sources start.

    Raises ConfigError or SourceError if there is nothing to serve.
    """
    from mcp_bridge._transports import stdio

    endpoint = bridge.endpoint
    on_import()
    async with _run_cancellable(bridge, signals, on_ready):
        await stdio.serve(endpoint, pipes, drain=bridge.drain, signals=signals)


async def serve_http(
    bridge: Bridge,
    host: str,
    port: int,
    options: HttpOptions,
    announce: Callable[[str], None],
    signals: ShutdownSignals | None = None,
) -> None:
    """Serve over HTTP. `announce` receives the base URL once the sources have started.

    Raises ConfigError or SourceError if there is nothing to serve.
    """
    from mcp_bridge._transports.http import server as http_server

    listener = http_server.listen(host, port, has_token=options.access.authenticator is not None)

    def announce_address() -> None:
        announce(http_server.format_address(listener))

    await _serve_app(bridge, listener, options, announce_address, signals)


async def serve_http_worker(
    bridge: Bridge, workers: WorkerGroup, options: HttpOptions, on_ready: Callable[[], None], signals: ShutdownSignals
) -> None:
    """Serve over HTTP as one of several workers. Call `on_ready` once the sources have started.

    Raises ConfigError or SourceError if there is nothing to serve.
    """
    sessions = replace(options.sessions, id_prefix=workers.name)
    await _serve_app(bridge, None, replace(options, sessions=sessions, workers=workers), on_ready, signals)


async def _serve_app(
    bridge: Bridge,
    listener: socket.socket | None,
    options: HttpOptions,
    on_ready: Callable[[], None],
    signals: ShutdownSignals | None,
) -> None:
    from mcp_bridge._transports.http import server as http_server
    from mcp_bridge._transports.http.app import BridgeApp

    async with _run_cancellable(bridge, signals, on_ready):
        app = BridgeApp(bridge.endpoint, replace(options, list_states=bridge.list_states))
        await http_server.serve(app, listener, drain=bridge.drain, signals=signals)


async def serve_local_socket(
    bridge: Bridge,
    listener: SharedListener,
    signals: ShutdownSignals | None = None,
    on_ready: Callable[[], None] = lambda: None,
    *,
    idle: float,
    settings: Settings | None = None,
    file: str = "",
) -> None:
    """Serve many clients over a local endpoint, until none has been connected for `idle` seconds.

    The operator API at the same endpoint describes `settings` and `file`. Clients are accepted once the sources have
    started. Raises ConfigError or SourceError if there is nothing to serve.
    """
    from mcp_bridge._transports import local_socket
    from mcp_bridge._web.operator_socket import OperatorConnections

    sources_started = anyio.Event()

    def accept_clients() -> None:
        on_ready()
        sources_started.set()

    def find_api() -> OperatorApi:
        from mcp_bridge._app.operator_api import find_operator_api

        return find_operator_api(bridge, settings, file)

    operators = OperatorConnections(find_api)

    async def serve_operator(connection: socket.socket, count_connected: Callable[[], int]) -> None:
        # Only the socket server knows the number, and passes the function with each connection.
        bridge.count_connected = count_connected
        await operators.serve_connection(connection)

    async with _run_cancellable(bridge, signals, accept_clients):
        await sources_started.wait()
        try:
            await local_socket.serve(
                bridge.endpoint, listener, serve_operator, idle=idle, drain=bridge.drain, signals=signals
            )
        finally:
            await operators.close()


async def run_worker(bridge: Bridge, on_ready: Callable[[], None], signals: ShutdownSignals) -> None:
    """Run tasks from the store that other servers share with this one, until a signal arrives.

    The first signal lets running tasks end for `bridge.drain` seconds. Raises ConfigError or SourceError if there are
    no tools.
    """
    endpoint = bridge.endpoint
    async with _run_cancellable(bridge, signals, on_ready):
        await bridge.wait_until_started()
        # The first signal cancels too, because the endpoint lets running tasks end after a cancellation.
        with anyio.CancelScope() as scope, signals.handle_while_serving(scope.cancel, scope.cancel, bridge.drain):
            await endpoint.run_worker()


@contextlib.asynccontextmanager
async def _run_cancellable(
    bridge: Bridge, signals: ShutdownSignals | None, on_ready: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Run the sources during the block, and call `on_ready` once they have started.

    A failed start cancels the block and is raised after it. A signal during the start cancels the block, too.
    """
    # The task group would wrap an error in an exception group, so it is raised outside of the group.
    errors: list[BridgeError] = []

    async def wait_for_start(scope: anyio.CancelScope) -> None:
        try:
            await bridge.wait_until_started()
            on_ready()
        except BridgeError as error:
            errors.append(error)
            scope.cancel()

    with (
        anyio.CancelScope() as scope,
        signals.handle_while_starting(scope.cancel) if signals is not None else contextlib.nullcontext(),
    ):
        async with bridge.run_sources(), anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_start, tasks.cancel_scope)
            yield
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]


def run_on_event_loop(main: Callable[..., Awaitable[Any]], *args: Any, loop_factory: LoopFactory | None = None) -> Any:
    """Run a function on an event loop that tools cannot stop. By default, it is one of asyncio, not of uvloop."""
    return anyio.run(
        main, *args, backend="asyncio", backend_options={"loop_factory": loop_factory or make_loop_factory()}
    )


def to_bridge(
    tools: ToolRegistry | Bridge,
    *,
    token: str | None = None,
    state: State | None = None,
    info: ServerInfo | None = None,
) -> Bridge:
    """Return a bridge for a registry, or the bridge itself. With a token, clients must not share cached lists."""
    if isinstance(tools, Bridge):
        bridge = tools
    else:
        bridge = Bridge(tools, identity=Identity(private=token is not None), state=state)
    if info is not None:
        bridge.describe_server(info)
    if token is not None:
        bridge.hide_secrets([token])
    return bridge


def build_metrics(bridge: Bridge) -> PrometheusMetrics:
    """Build the metrics, and record them from now on. Raises ConfigError without the extra `prometheus`."""
    try:
        from mcp_bridge._server.prometheus import PrometheusMetrics
    except ImportError:
        hint = f"Run `pip install '{DISTRIBUTION}[prometheus]'`"
        raise ConfigError("metrics need the package prometheus-client", where="http.metrics", hint=hint) from None
    metrics = PrometheusMetrics(bridge.list_states)
    bridge.endpoint.instrumentation.add_recorder(metrics)
    return metrics


def split_address(address: str | int) -> tuple[str, int]:
    """Split `8808`, `127.0.0.1:8808` or `[::1]:8808` into host and port. Raises ValueError."""
    host, _, port = str(address).rpartition(":")
    if not port.isdecimal():
        raise ValueError(f"'{address}' is not a port or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
