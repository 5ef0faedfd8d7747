"""The process of a shared server. A relay starts it (`launch.py`).

It has two arguments: an order in JSON, with the file to serve and the options, and a word for the inherited socket. Its
output goes to its log.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.local_connection import LocalListener
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor

DEFAULT_IDLE = 300.0
"""Seconds without a client after which a server of a Python file ends."""


def main() -> None:
    """Carry out the order in the arguments, and exit with the code of `serve`."""
    from mcp_bridge._runtime.platform import system

    # Collections during the imports take a tenth of a start. `serve_order` enables them again.
    gc.disable()
    order = json.loads(sys.argv[1])
    wants_guard = order["options"]["guard"] is not False
    guard = system.start_supervisor(["serve"] if wants_guard else ["serve", "--no-guard"])
    from mcp_bridge._cli.exits import run_and_exit
    from mcp_bridge._runtime.platform.endpoints import endpoints

    # On Windows, the socket arrives through standard input, so it is received before any tool could read it.
    listener = endpoints.adopt_listener(system.receive_listening_socket(sys.argv[2]), Path(order["socket"]))
    run_and_exit(lambda: serve_order(order, listener, guard))


def serve_order(order: dict[str, Any], listener: LocalListener, guard: Supervisor | None) -> None:
    """Serve a file to all clients of the inherited socket. Raises ConfigError."""
    from mcp_bridge._app.serve import run_on_event_loop, serve_local_socket
    from mcp_bridge._cli import logs
    from mcp_bridge._cli.garbage_collection import enable_collections
    from mcp_bridge._cli.process import manage_process
    from mcp_bridge._cli.serve_options import ServeOptions
    from mcp_bridge._cli.target import load_target

    # Tools may change the environment, on which the identity of this server depends.
    environ = dict(os.environ)
    options = ServeOptions(**order["options"])
    logs.configure_logging(options.log_level, Path(options.log_file) if options.log_file else None)
    with manage_process(guard) as signals:
        target = load_target(Path(order["file"]), watch=options.reload)
        enable_collections()
        idle = target.settings.shared.idle if target.settings is not None else DEFAULT_IDLE
        with logs.delay_start_errors() as release:
            serve = partial(serve_local_socket, idle=idle, settings=target.settings, file=order["file"])
            shared_listener = _make_listener(listener, options._replace(file=Path(order["file"])), environ)
            run_on_event_loop(serve, target.bridge, shared_listener, signals, release, loop_factory=target.loop_factory)


def _make_listener(listener: LocalListener, options: Any, environ: dict[str, str]) -> Any:
    """Add the check whether new clients still use this server."""
    from mcp_bridge._cli.shared.instance import find_instance
    from mcp_bridge._cli.shared.launch import lock_folder
    from mcp_bridge._transports.local_socket import SharedListener

    path = listener.path
    lock = partial(lock_folder, path.parent, wait=False)

    def is_current() -> bool:
        try:
            return find_instance(options, environ).socket == path
        except OSError:
            return False

    return SharedListener(listener, lock, is_current, (path.with_suffix(".pid"), path))


if __name__ == "__main__":
    main()
