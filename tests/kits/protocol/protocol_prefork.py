"""Stdio server processes with a start of milliseconds: this process has all imports done, and forks them.

A client starts `protocol_launch`, which hands over its standard streams on a Unix socket. For the client, both together
are an ordinary stdio server.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from tests.kits.protocol.protocol_launch import PID

READY = b"ready\n"


def prefork(address: str) -> None:
    """Fork servers until standard input ends."""
    from tests.kits.protocol import protocol_server

    protocol_server.warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        os.write(1, READY)
        while True:
            ready, _, _ = select.select([0, listening], [], [])
            if 0 in ready:
                return
            client, _ = listening.accept()
            with client:
                options, fds, _, _ = socket.recv_fds(client, 65_536, 3)
                if os.fork() == 0:
                    listening.close()
                    _serve(client, fds, json.loads(options))
                for fd in fds:
                    os.close(fd)


def _serve(client: socket.socket, fds: list[int], options: dict[str, Any]) -> None:
    """Be the server, in the child; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    client.send(f"{os.getpid():{PID}}".encode())
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    from tests.kits.protocol import protocol_server

    code = 1
    try:
        protocol_server.serve_over_stdio_streams(**options)
        code = 0
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
            client.send(str(code).encode())
        client.close()
        if code == 0:
            os._exit(0)


if __name__ == "__main__":
    prefork(sys.argv[1])
