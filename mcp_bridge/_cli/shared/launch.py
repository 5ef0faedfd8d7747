"""Connects to a shared server, and starts it if it is not running. Under a lock, only one client starts it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from mcp_bridge._cli.shared.instance import SharedInstance
from mcp_bridge._runtime.unix_sockets import is_same_user

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

    socket: socket.socket
    process: subprocess.Popen[bytes] | None = None
    log_size: int = 0


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock for starts and ends of the servers in a folder during the block.

    Yield True if the lock is held. If another process holds it and `wait` is false, yield False.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def connect_to_instance(instance: SharedInstance) -> ServerConnection:
    """Connect to an instance, and start it if it is not running. Raises OSError."""
    with lock_folder(instance.socket.parent):
        connection = open_connection(instance.socket)
        if connection is not None:
            return ServerConnection(connection)
        process, size = _start_server(instance)
        connection = open_connection(instance.socket)
        if connection is None:
            raise ConnectionError(f"cannot connect to {instance.socket}")
        return ServerConnection(connection, process, size)


def open_connection(path: Path) -> socket.socket | None:
    """Return a connection to a socket, or None if nothing listens. Raises PermissionError for another user's socket."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        if not is_same_user(connection):
            raise PermissionError(f"the socket {path} belongs to another user")
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def _start_server(instance: SharedInstance) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server in a new session. Return its process, and the size of its log before.

    The server inherits the listening socket, so clients can connect immediately.
    """
    import subprocess

    options = instance.options
    log_file = os.path.abspath(options.log_file) if options.log_file is not None else None
    # A server that was killed has left its files. Another process may have its process id now.
    for path in (instance.pid_file, instance.socket):
        path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening, _open_log(instance.log) as log:
        listening.bind(str(instance.socket))
        instance.socket.chmod(0o600)
        listening.listen(BACKLOG)
        order = {
            "file": instance.file,
            "descriptor": listening.fileno(),
            "socket": str(instance.socket),
            "options": {**options._asdict(), "file": None, "log_file": log_file},
        }
        size = os.fstat(log.fileno()).st_size
        process = subprocess.Popen(  # noqa: S603 - the server's own command
            [sys.executable, "-P", "-m", SERVER_MODULE, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=instance.directory,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    instance.pid_file.write_text(str(process.pid))
    return process, size


def _open_log(path: Path) -> IO[bytes]:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
