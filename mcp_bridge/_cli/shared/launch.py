"""Connects to a shared server, and starts it if it is not running. Under a lock, only one client starts it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from mcp_bridge._cli.shared.instance import SharedInstance
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.endpoints import endpoints
from mcp_bridge._runtime.platform.local_connection import LocalConnection

if TYPE_CHECKING:
    import subprocess

BACKLOG = 128
"""The number of connections that may wait while the server starts."""
LOG_BYTES = 5 * 1024 * 1024
"""The size of the log beyond which the next start begins a new one. One old log is kept."""
SERVER_MODULE = "mcp_bridge._cli.shared.server"


class ServerConnection(NamedTuple):
    """A connection to a shared server.

    If this process has started the server, `process` is its process, and `log_size` the size of the log before.
    """

    connection: LocalConnection
    process: subprocess.Popen[bytes] | None = None
    log_size: int = 0


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock for starts and ends of the servers in a folder during the block.

    Yield True if the lock is held. If another process holds it and `wait` is false, yield False.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with system.lock_descriptor(descriptor, wait=wait) as is_locked:
            yield is_locked
    finally:
        os.close(descriptor)


def connect_to_instance(instance: SharedInstance) -> ServerConnection:
    """Connect to an instance, and start it if it is not running. Raises OSError."""
    with lock_folder(instance.socket.parent):
        connection = endpoints.connect_endpoint(instance.socket)
        if connection is not None:
            return ServerConnection(connection)
        process, size = _start_server(instance)
        connection = endpoints.connect_endpoint(instance.socket)
        if connection is None:
            raise ConnectionError(f"cannot connect to {instance.socket}")
        return ServerConnection(connection, process, size)


def _start_server(instance: SharedInstance) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server in a new session. Return its process, and the size of its log before.

    The server inherits the listening socket, so clients can connect immediately.
    """
    options = instance.options
    log_file = os.path.abspath(options.log_file) if options.log_file is not None else None
    # A server that was killed has left its files. Another process may have its process id now.
    for path in (instance.pid_file, instance.socket):
        path.unlink(missing_ok=True)
    listening = endpoints.open_listener(instance.socket, BACKLOG).socket
    with listening, _open_log(instance.log) as log:
        order = {
            "file": instance.file,
            "socket": str(instance.socket),
            "options": {**options._asdict(), "file": None, "log_file": log_file},
        }
        size = os.fstat(log.fileno()).st_size
        command = [sys.executable, "-P", "-m", SERVER_MODULE, json.dumps(order)]
        process = system.start_daemon(command, listening, stdout=log, stderr=log, cwd=instance.directory)
    instance.pid_file.write_text(str(process.pid))
    return process, size


def _open_log(path: Path) -> IO[bytes]:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
