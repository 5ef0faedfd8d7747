"""The stdio server process for clients: it hands its streams to `protocol_prefork`, which forks a server there.

It ends when that server ends, and passes signals on. It imports little, because every connection starts it.
"""

import os
import signal
import socket
import sys

PID = 16
"""Bytes of the message that has the server's process id."""


def launch(address: str, options: str) -> int:
    """Act as a server for the parent process, and return the exit code."""
    with socket.socket(socket.AF_UNIX) as parent:
        parent.connect(address)
        socket.send_fds(parent, [options.encode()], [0, 1, 2])
        child = int(parent.recv(PID, socket.MSG_WAITALL))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os.kill(child, number))
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        # Only the child may hold the streams, because the client must see their end with it.
        os.dup2(0, 1)
        code = parent.recv(64)
    return int(code) if code else 128 + signal.SIGKILL


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1], sys.argv[2]))
