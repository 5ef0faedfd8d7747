"""`serve --workers`: several processes that serve one HTTP address, and their supervisor.

The supervisor binds the address, and starts this command again for each worker. A worker finds the number of its link
in WORKER_VARIABLE. The link is a socket to the supervisor:

1. The supervisor sends an order: the name of the worker, the folder of the inboxes, and the key for request states.
2. The worker sends a description of what it serves, once its sources have started. From then on, it gets connections.
3. The end of the link is the end of the supervisor. The worker then shuts down.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_bridge._app.serve import run_on_event_loop, serve_http_worker
from mcp_bridge._cli import logs
from mcp_bridge._cli.output import format_entry_counts, report
from mcp_bridge._cli.worker_supervisor import WORKER_VARIABLE, WorkerSupervisor
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import parse_store_address
from mcp_bridge._contracts.tasks import MEMORY
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.socket_passing import create_inbox_folder
from mcp_bridge._storage.stores.sqlite import SqliteStore
from mcp_bridge._transports.http import server as http_server
from mcp_bridge._transports.http.worker_group import STATE_SEPARATOR, WorkerGroup

if TYPE_CHECKING:
    from mcp_bridge._cli.target import BridgeTarget
    from mcp_bridge._transports.http.app import HttpOptions
    from mcp_bridge._transports.shutdown import ShutdownSignals

EXIT_MARGIN = 2.0
"""The seconds that the supervisor waits longer for a shutdown than its workers, which end themselves in time."""


class StartOrder(NamedTuple):
    """What a worker learns from the supervisor."""

    link: socket.socket
    name: str
    folder: Path
    key: str


def serve_with_workers(
    target: BridgeTarget, count: int, host: str, port: int, options: HttpOptions, signals: ShutdownSignals
) -> None:
    """Serve over HTTP with several processes: as the supervisor of workers, or as one of them. Raises ConfigError."""
    order = _receive_order()
    if order is not None:
        _serve_as_worker(target, order, options, signals)
        return
    _check_settings(target)
    try:
        folder = create_inbox_folder()
    except OSError as error:
        hint = "Set TMPDIR to a folder with a short path, in which this user can write"
        raise ConfigError(f"workers need temporary files: {error}", where="http.workers", hint=hint) from error
    try:
        _supervise_workers(target, count, folder, host, port, options, signals)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _supervise_workers(
    target: BridgeTarget,
    count: int,
    folder: Path,
    host: str,
    port: int,
    options: HttpOptions,
    signals: ShutdownSignals,
) -> None:
    listener = http_server.listen(host, port, has_token=options.access.authenticator is not None)
    url = http_server.format_address(listener)

    def announce(counts: str) -> None:
        report(f"Serving {counts} on {url}/mcp (legacy SSE on {url}/sse) with {count} workers. Press Ctrl-C to stop.")

    timeout = options.shutdown_delay + target.bridge.drain + EXIT_MARGIN
    supervisor = WorkerSupervisor(listener, count, folder, announce)
    run_on_event_loop(supervisor.run, signals, timeout)
    if supervisor.exit_code:
        raise SystemExit(supervisor.exit_code)


def _check_settings(target: BridgeTarget) -> None:
    """Raise ConfigError if several processes cannot serve these settings."""
    problem, hint = "", ""
    tasks = target.bridge.state.tasks
    if not system.CAN_PASS_SOCKETS:
        problem, hint = "this system cannot share an address between workers", "Use one worker, or Linux or macOS"
    elif target.settings is not None and target.settings.http.page is not None:
        problem, hint = "the page shows the calls of one process only", "Use one worker, or remove http.page"
    elif tasks is not None and tasks.url == MEMORY:
        hint = "Use one worker, or a Redis that all workers use: `state: {store: redis://HOST}`"
        problem = "tasks in memory belong to one process"
    if problem:
        raise ConfigError(problem, path=str(target.path), where="http.workers", hint=hint)


def _receive_order() -> StartOrder | None:
    """Return the order of the supervisor, or None in the supervisor."""
    # Programs that this process starts are no workers, so they do not get the variable.
    descriptor = os.environ.pop(WORKER_VARIABLE, None)
    if descriptor is None:
        return None
    os.set_inheritable(int(descriptor), False)
    link = socket.socket(fileno=int(descriptor))
    order = json.loads(link.recv(1 << 16))
    return StartOrder(link=link, name=order["name"], folder=Path(order["folder"]), key=order["key"])


def _serve_as_worker(target: BridgeTarget, order: StartOrder, options: HttpOptions, signals: ShutdownSignals) -> None:
    bridge = target.bridge
    workers = WorkerGroup(order.folder, order.name)
    state = replace(bridge.state, keys=bridge.state.keys or [order.key], prefix=order.name + STATE_SEPARATOR)
    if target.settings is None or parse_store_address(target.settings.state.store).type == "memory":
        # A state in memory would be known to one worker only.
        state = replace(state, store=SqliteStore(order.folder / "state.db"))
    bridge.state = state

    has_supervisor = True

    def end_with_supervisor() -> None:
        nonlocal has_supervisor
        has_supervisor = False
        asyncio.get_running_loop().remove_reader(order.link)
        signal.raise_signal(signal.SIGTERM)

    with logs.delay_start_errors() as release:

        def handle_start() -> None:
            release()
            asyncio.get_running_loop().add_reader(order.link, end_with_supervisor)
            workers.join()
            with suppress(OSError):
                order.link.sendall(format_entry_counts(bridge.registry).encode())

        run_on_event_loop(
            serve_http_worker, bridge, workers, options, handle_start, signals, loop_factory=target.loop_factory
        )
    if not has_supervisor:
        shutil.rmtree(order.folder, ignore_errors=True)
