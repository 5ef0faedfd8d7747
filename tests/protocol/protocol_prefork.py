"""Server processes for stdio that start in milliseconds: a parent that has imported everything forks them.

Started with `--launch`, this file is what a client spawns: it hands its three standard streams over a Unix socket
to the parent, which forks a server onto them, and ends as that server ends. From outside it is any stdio server.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

READY = b"ready\n"


def launch(address: str, options: str) -> int:
    """Be a server, as far as whoever started this process can tell; the exit code."""
    with socket.socket(socket.AF_UNIX) as parent:
        parent.connect(address)
        socket.send_fds(parent, [options.encode()], [0, 1, 2])
        child = int(parent.recv(64) or 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os.kill(child, number))
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)  # the streams are the child's alone: the client must see them end when it ends
        code = parent.recv(64)
    return int(code) if code else 128 + signal.SIGKILL


def prefork(address: str) -> None:
    """Fork servers until standard input ends."""
    import protocol_server

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
    client.send(str(os.getpid()).encode())
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    import protocol_server

    code = 1
    try:
        protocol_server.over_stdio(**options)
        code = 0
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
            client.send(str(code).encode())
        client.close()
        if code == 0:
            os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        sys.exit(launch(sys.argv[2], sys.argv[3]))
    sys.path.insert(0, str(Path(__file__).parent))
    prefork(sys.argv[1])
