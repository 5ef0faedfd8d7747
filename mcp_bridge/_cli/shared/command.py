"""`shared`: lists and stops the shared servers of this user."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import SharedOptions
from mcp_bridge._cli.output import report, show_table, write_json
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.terminal_text import escape_line

START_TIMEOUT = 5.0
"""Seconds in which a server has to describe itself. It imports the operator API for that, and may still import its
tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServer:
    """A running server. `pid` is the process for signals. A server that is not `ready` is still starting."""

    pid: int
    file: str = ""
    version: str = ""
    clients: int = 0
    ready: bool = True


def show_shared_servers(options: SharedOptions) -> None:
    """Print the running servers as a table or as JSON, or stop them. Exit with 3 if there is none to stop."""
    file = os.path.realpath(options.file) if options.file is not None else None
    servers_by_path = {path: server for path, server in _find_servers() if file is None or server.file == file}
    servers = list(servers_by_path.values())
    if options.as_json and not options.stop:
        write_json([asdict(server) for server in servers])
        return
    if not options.stop:
        rows: list[Sequence[str]] = []
        for server in servers:
            rows.append((str(server.pid), server.file or "(is starting)", server.version, str(server.clients)))
        show_table(("process", "file", "version", "clients"), rows, empty="no shared server is running")
        return
    for path, server in servers_by_path.items():
        # The server may just have ended.
        with suppress(ProcessLookupError, ConnectionError):
            if system.HAS_SIGNALS or not server.ready:
                os.kill(server.pid, signal.SIGTERM)
            else:
                _request_stop(path)
        report(f"stopping: {escape_line(server.file or 'a server that is starting')} (process {server.pid})")
    if not servers:
        report("no shared server is running" if file is None else f"no shared server of {file} is running")
        raise SystemExit(ExitCode.NOT_FOUND)


def _request_stop(path: Path) -> None:
    """Ask the server at an endpoint to stop. Raises ConnectionError if no server of this user listens there."""
    from mcp_bridge._runtime.platform.endpoints import endpoints
    from mcp_bridge._transports.local_socket import STOP

    connection = endpoints.connect_endpoint(path)
    if connection is None:
        raise ConnectionError(f"no server listens at {path}")
    with connection.socket as connected:
        connected.settimeout(START_TIMEOUT)
        if not connection.verify():
            raise ConnectionError(f"the server at {path} belongs to another user")
        connected.sendall(STOP)


def _find_servers() -> Iterator[tuple[Path, SharedServer]]:
    """Yield the listening servers with their endpoints. Raises ConfigError if their folder cannot be used."""
    from mcp_bridge._cli.shared.instance import find_socket_folder

    try:
        folder = find_socket_folder()
    except OSError as error:
        raise ConfigError(str(error)) from error
    for path in sorted(folder.glob("*.sock")):
        with suppress(OSError, ValueError):
            server = anyio.run(_read_server, path)
            if server is not None:
                yield path, server


async def _read_server(path: Path) -> SharedServer | None:
    """Return what a server reports about itself, or None if nothing listens. Raises OSError and ValueError."""
    from mcp_bridge._web.client import OperatorClient, OperatorError

    pid = int(path.with_suffix(".pid").read_text())
    with anyio.move_on_after(START_TIMEOUT):
        try:
            server = await OperatorClient(socket=path).read_server()
        except OperatorError:
            return None
        return SharedServer(pid=pid, file=server["file"], version=server["bridge"], clients=server["connected"])
    return SharedServer(pid=pid, ready=False)
