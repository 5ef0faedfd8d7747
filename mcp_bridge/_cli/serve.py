"""`serve`: over stdio or HTTP, until the client disconnects or a signal arrives."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_bridge._app.serve import run_on_event_loop, serve_http, serve_stdio, split_address
from mcp_bridge._cli import logs
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.output import format_entry_counts, report
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._cli.target import NO_RECORD, RELOAD_HINT, BridgeTarget, can_reload, hide_secrets, load_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import parse_store_address
from mcp_bridge._engine.plugins import make_store
from mcp_bridge._runtime.process_tree import end_descendants
from mcp_bridge._runtime.stderr_relay import relay_stderr
from mcp_bridge._runtime.stdio_descriptors import detach_stdin, reserve_stdio
from mcp_bridge._runtime.supervisor import GRACE, Supervisor
from mcp_bridge._transports.shutdown import ShutdownSignals

if TYPE_CHECKING:
    from mcp_bridge._app.http_access import TokenReloader
    from mcp_bridge._desktop.client import ServerEntry
    from mcp_bridge._settings import Settings
    from mcp_bridge._transports.http.access import Access
    from mcp_bridge._transports.http.app import HttpOptions, MetricsRenderer
    from mcp_bridge._transports.http.sessions import SessionOptions
    from mcp_bridge._web.api import OperatorApi

SETTINGS_ADDRESS = "settings"
"""The value of `--http` that selects the address in the settings."""
DEFAULT_ADDRESS = ("127.0.0.1", 8808)


def serve_target(options: ServeOptions, guard: Supervisor | None) -> None:
    """Serve a file; `guard` is the process guard, if one is running. Raises ConfigError."""
    if options.shared:
        from mcp_bridge._cli.shared.command_line import run_relay

        run_relay(options)
    logs.configure_logging(options.log_level, options.log_file)
    if options.guard and guard is None:
        raise ConfigError("this system has no process guard", where="--guard", hint="Omit the option: it needs Linux")
    supervised = contextlib.nullcontext() if guard is not None else end_descendants(GRACE)
    with ShutdownSignals(lasting=True, guard=guard) as ending, relay_stderr(), supervised:
        if options.http is None:
            with reserve_stdio() as pipes:  # before any tool is imported: what tools print must not reach the client
                target = _load_bridge(options)
                if os.isatty(pipes.source):
                    report(f"Serving {target.path} over stdio, for an MCP client to start. Press Ctrl-C to stop.")
                with logs.hold_start_errors() as release:
                    serve = partial(serve_stdio, loaded=enable_collections)
                    run_on_event_loop(serve, target.bridge, pipes, ending, release, loop_factory=target.loop_factory)
        else:
            with detach_stdin():
                target = _load_bridge(options)
                enable_collections()
                _serve_http(target, options.http, options.token_env, ending)


def _load_bridge(options: ServeOptions) -> BridgeTarget:
    if options.reload and not can_reload():
        raise ConfigError("watching files needs the package watchfiles", where="--reload", hint=RELOAD_HINT)
    target = load_target(options.file, watch=options.reload, token_env=options.token_env)
    if os.environ.get(NO_RECORD):
        target.bridge.disable_recording()
    return target


def _serve_http(target: BridgeTarget, http: str, token_env: str | None, ending: ShutdownSignals) -> None:
    host, port, options = _choose_http_options(target, http, token_env)

    def announce(url: str) -> None:
        release()
        counts = format_entry_counts(target.bridge.registry)
        report(f"Serving {counts} on {url}/mcp (legacy SSE on {url}/sse). Press Ctrl-C to stop.")

    with logs.hold_start_errors() as release:
        run_on_event_loop(
            serve_http, target.bridge, host, port, options, announce, ending, loop_factory=target.loop_factory
        )


def _choose_http_options(target: BridgeTarget, http: str, token_env: str | None) -> tuple[str, int, HttpOptions]:
    """Options of the command take precedence over the settings, and these over the defaults."""
    from mcp_bridge._app.http_access import build_authenticator
    from mcp_bridge._app.serve import build_metrics
    from mcp_bridge._transports.http.access import Access

    if target.settings is None:
        host, port = DEFAULT_ADDRESS if http == SETTINGS_ADDRESS else _parse_address(http)
        return host, port, build_http_options(None, Access.for_host(host, token=_read_token(token_env)))
    settings = target.settings.http
    host, port = (settings.host, settings.port) if http == SETTINGS_ADDRESS else _parse_address(http)
    try:
        token = _read_token(token_env or settings.token_env)
    except ConfigError as error:
        if token_env is not None:
            raise
        raise target.settings.add_location(error, "http", "token_env") from error
    reloader = _read_named_tokens(target)
    authenticator = build_authenticator(target.settings, token, reloader.tokens if reloader is not None else {})
    if reloader is not None and authenticator is not None:
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
    from mcp_bridge._transports.http1.connection import ClientTimeouts

    if settings is None:
        return HttpOptions(access=access, page=page)
    http = settings.http
    timeouts = ClientTimeouts()
    if http.client_timeout is not None:
        timeouts = ClientTimeouts(receive=http.client_timeout, send=http.client_timeout)
    return HttpOptions(
        access=access,
        body=settings.limits.arguments,
        sessions=_build_session_options(settings),
        timeouts=timeouts,
        shutdown_delay=http.shutdown_delay,
        background=background,
        page=page,
        metrics=metrics,
    )


def _build_page(target: BridgeTarget, host: str) -> OperatorApi:
    """Build the page of a served file. It can install the server only if it is on the machine of its users."""
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
    """Return what builds the entry of a served file for clients, as `install` does, and the path of the file."""

    def build_own_entry() -> tuple[ServerEntry, str]:
        from mcp_bridge._cli.install import build_entry

        entry, served = build_entry(target.path, None)
        return entry, str(served.path)

    return build_own_entry


def _read_named_tokens(target: BridgeTarget) -> TokenReloader | None:
    """Return the reloader of named tokens, or None if the settings have none at start-up."""
    if target.settings is None or not target.settings.http.tokens:
        return None
    from mcp_bridge._app.http_access import TokenReloader

    return TokenReloader(target.path, target.settings, partial(hide_secrets, target.bridge))


def _build_session_options(settings: Settings) -> SessionOptions:
    from mcp_bridge._transports.http.sessions import ResumeOptions, SessionOptions

    # Events get a store of their own, or they would push other state out of a bounded one. It is in memory, unless the
    # store is third-party: the sessions end with this process.
    store = parse_store_address(settings.state.store).type
    resuming = ResumeOptions(store=make_store(store if ":" in store else "memory"))
    return SessionOptions(sessions=settings.http.sessions, idle=settings.http.idle, resuming=resuming)


def _parse_address(http: str) -> tuple[str, int]:
    try:
        return split_address(http)
    except ValueError as error:
        hint = "Use --http 8808, --http 127.0.0.1:8808 or --http settings"
        raise ConfigError(str(error), where="--http", hint=hint) from error


def _read_token(name: str | None) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token:
        hint = f"Set {name} to the token"
        raise ConfigError(f"the environment variable {name} is not set", where="--token-env", hint=hint)
    return token
