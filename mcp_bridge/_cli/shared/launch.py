"""Connects to a shared server, and starts it if it is not running. A lock keeps two clients from starting two."""

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
"""Connections that may wait while the server starts."""
LOG_BYTES = 5 * 1024 * 1024
"""Size of the log at which a start begins a new one; the one before is kept."""
SERVER_MODULE = "mcp_bridge._cli.shared.server"


class ServerConnection(NamedTuple):
    """A connection to a shared server, and its process and the size of its log if this process has started it."""

    socket: socket.socket
    process: subprocess.Popen[bytes] | None = None
    log_size: int = 0


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock under which servers of a folder start and end. Yield whether it is held; if not `wait`, at once."""
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
    """Connect to an instance, which is started if it is not running. Raises OSError."""
    with lock_folder(instance.socket.parent):
        connected = open_connection(instance.socket)
        if connected is not None:
            return ServerConnection(connected)
        process, size = _start_server(instance)
        connected = open_connection(instance.socket)
        if connected is None:
            raise ConnectionError(f"cannot connect to {instance.socket}")
        return ServerConnection(connected, process, size)


def open_connection(path: Path) -> socket.socket | None:
    """Return a connection to a socket, or None if nothing listens. Raises PermissionError for another user's socket."""
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connected.close()
        return None
    except BaseException:
        connected.close()
        raise
    if not is_same_user(connected):
        connected.close()
        raise PermissionError(f"the socket {path} belongs to another user")
    return connected


def _start_server(instance: SharedInstance) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server in a session of its own. It inherits the listening socket, so clients can connect at once."""
    import subprocess

    options = instance.options
    for path in (instance.pid_file, instance.socket):  # of a server that was killed: its process id may be another's
        path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening, _open_log(instance.log) as log:
        listening.bind(str(instance.socket))
        instance.socket.chmod(0o600)
        listening.listen(BACKLOG)
        order = {
            "file": instance.file,
            "descriptor": listening.fileno(),
            "socket": str(instance.socket),
            "options": {**options._asdict(), "file": None, "log_file": _format_path(options.log_file)},
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


def _format_path(path: Path | None) -> str | None:
    return None if path is None else os.path.abspath(path)
