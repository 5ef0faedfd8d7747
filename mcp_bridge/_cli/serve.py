"""`serve`: serves a file over stdio or HTTP, until the client disconnects or a signal arrives."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_bridge._app.serve import run_on_event_loop, serve_http, serve_stdio, split_address
from mcp_bridge._cli import logs
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.output import format_entry_counts, report
from mcp_bridge._cli.process import manage_process
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._cli.target import NO_RECORD_VARIABLE, RELOAD_HINT, BridgeTarget, can_reload, hide_secrets, load_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import parse_store_address
from mcp_bridge._engine.plugins import make_store
from mcp_bridge._runtime.stdio_descriptors import detach_stdin, reserve_stdio
from mcp_bridge._transports.shutdown import ShutdownSignals

if TYPE_CHECKING:
    from mcp_bridge._desktop.client import ServerEntry
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor
    from mcp_bridge._settings import Settings
    from mcp_bridge._transports.http.access import Access
    from mcp_bridge._transports.http.app import HttpOptions, MetricsRenderer
    from mcp_bridge._web.api import OperatorApi

SETTINGS_ADDRESS = "settings"
"""The value of `--http` that selects the address in the settings."""
DEFAULT_ADDRESS = ("127.0.0.1", 8808)


def serve_target(options: ServeOptions, guard: Supervisor | None) -> None:
    """Serve a file. `guard` is the process guard, if one is running. Raises ConfigError."""
    if options.shared:
        from mcp_bridge._cli.shared.command_line import run_relay

        run_relay(options)
    logs.configure_logging(options.log_level, options.log_file)
    if options.guard and guard is None:
        raise ConfigError("this system has no process guard", where="--guard", hint="Omit the option: it needs Linux")
    if options.workers is not None and options.http is None:
        raise ConfigError("workers serve HTTP only", where="--workers", hint="Add --http 8808, or omit the option")
    with manage_process(guard) as signals:
        if options.http is None:
            # Stdout is reserved before any tool is imported: what tools print must not reach the client.
            with reserve_stdio() as pipes:
                target = _load_bridge(options)
                if os.isatty(pipes.source):
                    report(f"Serving {target.path} over stdio, for an MCP client to start. Press Ctrl-C to stop.")
                # The errors of a failed start are logged too, but `run_and_exit` reports them.
                with logs.delay_start_errors() as release:
                    serve = partial(serve_stdio, on_import=enable_collections)
                    run_on_event_loop(serve, target.bridge, pipes, signals, release, loop_factory=target.loop_factory)
        else:
            with detach_stdin():
                target = _load_bridge(options)
                enable_collections()
                host, port, http_options = _choose_http_options(target, options.http, options.token_env)
                workers = options.workers or (target.settings.http.workers if target.settings is not None else 1)
                if workers > 1:
                    from mcp_bridge._cli.http_workers import serve_with_workers

                    serve_with_workers(target, workers, host, port, http_options, signals)
                    return

                def announce(url: str) -> None:
                    counts = format_entry_counts(target.bridge.registry)
                    report(f"Serving {counts} on {url}/mcp (legacy SSE on {url}/sse). Press Ctrl-C to stop.")

                run_http_server(target, host, port, http_options, signals, announce)


def run_http_server(
    target: BridgeTarget,
    host: str,
    port: int,
    options: HttpOptions,
    signals: ShutdownSignals,
    announce: Callable[[str], None],
) -> None:
    """Serve over HTTP until a signal arrives. Once clients can connect, call `announce` with the URL."""
    with logs.delay_start_errors() as release:

        def handle_start(url: str) -> None:
            release()
            announce(url)

        run_on_event_loop(
            serve_http, target.bridge, host, port, options, handle_start, signals, loop_factory=target.loop_factory
        )


def _load_bridge(options: ServeOptions) -> BridgeTarget:
    if options.reload and not can_reload():
        raise ConfigError("watching files needs the package watchfiles", where="--reload", hint=RELOAD_HINT)
    target = load_target(options.file, watch=options.reload, token_env=options.token_env)
    # `doctor` sets this variable for the servers that it starts, so that a check changes nothing.
    if os.environ.get(NO_RECORD_VARIABLE):
        target.bridge.disable_recording()
    return target


def _choose_http_options(target: BridgeTarget, http: str, token_env: str | None) -> tuple[str, int, HttpOptions]:
    """Choose the address and the options. Options of the command override the settings, which override the defaults."""
    from mcp_bridge._app.http_access import TokenReloader, build_authenticator
    from mcp_bridge._app.serve import build_metrics
    from mcp_bridge._cli.server_address import read_token
    from mcp_bridge._transports.http.access import Access

    host, port = DEFAULT_ADDRESS
    if target.settings is not None:
        host, port = target.settings.http.host, target.settings.http.port
    if http != SETTINGS_ADDRESS:
        try:
            host, port = split_address(http)
        except ValueError as error:
            hint = "Use --http 8808, --http 127.0.0.1:8808 or --http settings"
            raise ConfigError(str(error), where="--http", hint=hint) from error
    if target.settings is None:
        return host, port, build_http_options(None, Access.for_host(host, token=read_token(token_env)))
    settings = target.settings.http
    try:
        token = read_token(token_env or settings.token_env)
    except ConfigError as error:
        if token_env is not None:
            raise
        raise target.settings.add_location(error, "http", "token_env") from error
    reloader = None
    named_tokens: Mapping[str, str] = {}
    if settings.tokens:
        reloader = TokenReloader(target.path, target.settings, partial(hide_secrets, target.bridge))
        named_tokens = reloader.tokens
    authenticator = build_authenticator(target.settings, token, named_tokens)
    if reloader is not None and authenticator is not None:
        # The reloader replaces the tokens of the authenticator while it serves.
        reloader.accepted = authenticator.tokens
    access = Access.for_host(
        host, hosts=settings.allowed_hosts, origins=settings.allowed_origins, authenticator=authenticator
    )
    background = [reloader.run] if reloader is not None else []
    page = _build_page(target, host) if settings.page is not None else None
    metrics = build_metrics(target.bridge) if settings.metrics else None
    return host, port, build_http_options(target.settings, access, page=page, metrics=metrics, background=background)


def build_http_options(
    settings: Settings | None,
    access: Access,
    *,
    page: OperatorApi | None = None,
    metrics: MetricsRenderer | None = None,
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> HttpOptions:
    """Build the options with the limits of the settings, if there are any."""
    from mcp_bridge._transports.http.app import HttpOptions
    from mcp_bridge._transports.http.sessions import ResumeOptions, SessionOptions
    from mcp_bridge._transports.http1.connection import ClientTimeouts

    if settings is None:
        return HttpOptions(access=access, page=page)
    http = settings.http
    timeouts = ClientTimeouts()
    if http.client_timeout is not None:
        timeouts = ClientTimeouts(receive=http.client_timeout, send=http.client_timeout)
    # Events have a separate store: a store of limited size would remove other state to make space for them. The memory
    # suffices, because the sessions end with this process. A third-party store (`module:attribute`) is used anyway.
    store_type = parse_store_address(settings.state.store).type
    event_store = make_store(store_type if ":" in store_type else "memory")
    sessions = SessionOptions(sessions=http.sessions, idle=http.idle, resuming=ResumeOptions(store=event_store))
    return HttpOptions(
        access=access,
        body=settings.limits.arguments,
        sessions=sessions,
        timeouts=timeouts,
        shutdown_delay=http.shutdown_delay,
        background=background,
        page=page,
        metrics=metrics,
    )


def _build_page(target: BridgeTarget, host: str) -> OperatorApi:
    """Build the page of a served file. It offers to install the server only to users on this machine."""
    from mcp_bridge._app.operator_api import build_operator_api
    from mcp_bridge._transports.http.access import is_loopback
    from mcp_bridge._web.subject import PageOptions

    assert target.settings is not None
    http = target.settings.http
    options = PageOptions(
        origins=http.allowed_origins,
        operators=http.page.operators if http.page is not None else (),
        is_shared=bool(http.tokens or http.jwt is not None),
        build_entry=make_entry_builder(target) if is_loopback(host) else None,
    )
    return build_operator_api(target.bridge, target.settings, options)


def make_entry_builder(target: BridgeTarget) -> Callable[[], tuple[ServerEntry, str]]:
    """Return the function for the page to install the server.

    It returns the entry of a client for the served file, and the path of this file.
    """

    def build_target_entry() -> tuple[ServerEntry, str]:
        from mcp_bridge._cli.install import build_entry

        entry, served_file = build_entry(target.path, None)
        return entry, str(served_file.path)

    return build_target_entry
