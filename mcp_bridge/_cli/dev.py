"""`dev`: serves a file with its page on this machine, reloads it when it changes, and opens the browser."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING

from mcp_bridge._app.operator_api import build_operator_api
from mcp_bridge._cli import logs
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.options import DevOptions
from mcp_bridge._cli.output import format_entry_counts, report
from mcp_bridge._cli.process import manage_process
from mcp_bridge._cli.serve import (
    DEFAULT_ADDRESS,
    build_http_options,
    make_entry_builder,
    run_http_server,
)
from mcp_bridge._cli.target import RELOAD_HINT, can_reload, hide_secrets, load_target
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.stdio_descriptors import detach_stdin
from mcp_bridge._transports.http.access import Access
from mcp_bridge._web.subject import PageOptions

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor

TOKEN_BYTES = 24
"""The number of random bytes in the token."""


def serve_page(options: DevOptions, guard: Supervisor | None) -> None:
    """Serve a file with its page until a signal arrives. `guard` is the process guard, if one is running.

    Raises ConfigError.
    """
    logs.configure_logging(options.log_level)
    with manage_process(guard) as signals, detach_stdin():
        token = secrets.token_urlsafe(TOKEN_BYTES)
        target = load_target(options.file, watch=can_reload(), private=True)
        hide_secrets(target.bridge, [token])
        host = DEFAULT_ADDRESS[0]
        port = options.port if options.port is not None else _choose_port(*DEFAULT_ADDRESS)
        page_options = PageOptions(build_entry=make_entry_builder(target))
        page = build_operator_api(target.bridge, target.settings, page_options)
        http_options = build_http_options(target.settings, Access.for_host(host, token=token), page=page)
        enable_collections()

        def announce(url: str) -> None:
            page_url = f"{url}/#token={token}"
            reloading = ""
            if can_reload():
                reloading = ", and reloading changed files"
            counts = format_entry_counts(target.bridge.registry)
            report(f"Serving {counts} on {url}/mcp{reloading}. Press Ctrl-C to stop.")
            if not reloading:
                report(f"Changed files are not reloaded. {RELOAD_HINT}")
            report(f"Page: {page_url}", f"Clients send this token: {token}")
            if options.open:
                _open_page(page_url)

        run_http_server(target, host, port, http_options, signals, announce)


def _choose_port(host: str, port: int) -> int:
    """Return the port if it is free, or 0, which chooses any free port."""
    try:
        with socket.create_server((host, port)):
            return port
    except OSError:
        return 0


def _open_page(url: str) -> None:
    if system.has_browser(os.environ):
        # Some browsers block until their window is closed.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    else:
        report("No browser is opened here. Open the page on this machine, or through a tunnel to it.")
