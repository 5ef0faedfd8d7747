"""`serve`: over stdio, or over HTTP."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge.app.serve import over_http, over_stdio, run, split_address
from mcp_bridge.cli import logs
from mcp_bridge.cli.exits import published, say
from mcp_bridge.cli.target import Target, load
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.registry.plugins import FILES, make_store
from mcp_bridge.runtime.descriptors import private, unread
from mcp_bridge.runtime.process_tree import end_descendants
from mcp_bridge.runtime.stderr_relay import relayed
from mcp_bridge.runtime.supervisor import GRACE, Supervisor
from mcp_bridge.transports.ends import Ending

if TYPE_CHECKING:
    from mcp_bridge.settings import Settings
    from mcp_bridge.transports.http.app import HttpOptions
    from mcp_bridge.transports.http.sessions import SessionOptions

SETTINGS_ADDRESS = "settings"
"""What `--http` says for the address that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of the command."""

    http: str | None
    token_env: str | None
    reload: bool
    level: str
    log_file: Path | None
    guard: bool | None


def over(path: Path | None, wishes: Wishes, guard: Supervisor | None) -> None:
    """Serve until the client leaves or a signal comes; either is a good end. `guard` is the one that stands already."""
    logs.configure(wishes.level, wishes.log_file)
    if wishes.guard and guard is None:
        raise ConfigError("no guard can be had on this system", where="--guard", hint="Leave it out: it needs Linux")
    supervised = contextlib.nullcontext() if guard is not None else end_descendants(GRACE)
    with Ending(lasting=True, guard=guard) as ending, relayed(), supervised:
        if wishes.http is None:
            with private() as pipes:  # before any tool is imported: its prints must not reach the client
                target = _load(path, wishes)
                if os.isatty(pipes.source):
                    say(f"Serving {target.path} over stdio, for an MCP client to launch. Press Ctrl-C to stop.")
                run(over_stdio, target.bridge, pipes, ending, loop_factory=target.loop_factory)
        else:
            with unread():
                target = _load(path, wishes)
                _over_http(target, wishes.http, wishes.token_env, ending)


def _load(path: Path | None, wishes: Wishes) -> Target:
    return load(path, watch=wishes.reload, token_env=wishes.token_env)


def _over_http(target: Target, http: str, token_env: str | None, ending: Ending) -> None:
    host, port, options = _options(target, http, token_env)

    def announce(url: str) -> None:
        offered = published(target.bridge.registry)
        say(f"Serving {offered} on {url}/mcp (legacy SSE on {url}/sse). Press Ctrl-C to stop.")

    run(over_http, target.bridge, host, port, options, announce, ending, loop_factory=target.loop_factory)


def _options(target: Target, http: str, token_env: str | None) -> tuple[str, int, HttpOptions]:
    """The command's word before the settings', the settings' before the default."""
    from mcp_bridge.transports.http.app import HttpOptions
    from mcp_bridge.transports.http.connection import ClientTimeouts
    from mcp_bridge.transports.http.guard import Access

    if target.settings is None:
        host, port = ("127.0.0.1", 8808) if http == SETTINGS_ADDRESS else _address(http)
        return host, port, HttpOptions(access=Access.to(host, token=_token(token_env)))
    settings = target.settings.http
    host, port = (settings.host, settings.port) if http == SETTINGS_ADDRESS else _address(http)
    access = Access.to(
        host,
        hosts=settings.allowed_hosts,
        origins=settings.allowed_origins,
        token=_token(token_env or settings.token_env),
    )
    timeouts = ClientTimeouts(receive=settings.receive_timeout, send=settings.send_timeout)
    sessions = _sessions(target.settings)
    return host, port, HttpOptions(access=access, body=settings.body, sessions=sessions, timeouts=timeouts)


def _sessions(settings: Settings) -> SessionOptions:
    """Sessions as the settings say. Their messages have a store of their own, or they would push out other state."""
    from mcp_bridge.transports.http.sessions import Resuming, SessionOptions

    http = settings.http
    resuming = None
    if http.resumable:
        kind = "memory" if settings.state.store in FILES else settings.state.store  # they are gone with the process
        resuming = Resuming(events=http.events, retry=http.retry, store=make_store(kind))
    return SessionOptions(sessions=http.sessions, idle=http.idle, resuming=resuming)


def _address(http: str) -> tuple[str, int]:
    try:
        return split_address(http)
    except ValueError as error:
        raise ConfigError(
            str(error), where="--http", hint="Write --http 8808, --http 127.0.0.1:8808, or --http settings"
        ) from error


def _token(name: str | None) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token:
        hint = f"Put the token into {name} before the start"
        raise ConfigError(f"the environment variable {name} is not set", where="--token-env", hint=hint)
    return token
