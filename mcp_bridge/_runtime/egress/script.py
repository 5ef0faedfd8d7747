"""Connects a sandbox to its proxy. The script runs outside the sandbox and again inside it:

    python -I -S script.py outside RULES COMMAND...
    python -I -S script.py inside NO_PROXY COMMAND...

Outside, the script forks. The parent becomes the program of the sandbox, with one end of a socket pair. The child
becomes the proxy, and ends with its parent. Inside, where the loopback interface is the sandbox's own, the script
creates a listening socket, sends it to the proxy through the socket pair, and becomes the command.

So no other process has to run in the sandbox, and no file has to be mounted in it. The proxy accepts connections in the
network of the sandbox, and makes its own connections in the network of the bridge. If the proxy is killed, the command
has no network.
"""

# Only Linux has the functions for processes and descriptors, but other systems import this file to know its path.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import os
import socket
import sys

# Importing `typing` would take a quarter of the time in which the script starts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PORT = 3128
"""The port of the proxy in the sandbox."""
_CHANNEL = 10
"""The descriptor of the sandbox's end of the socket pair."""
_BACKLOG = 128
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def run_outside(rules: str, command: list[str]) -> NoReturn:
    """Start the proxy and execute the program of the sandbox. `rules` are the options of `egress.wrap_sandbox`."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        os.dup2(theirs.fileno(), _CHANNEL)
        _execute(command)
    theirs.close()
    try:
        _run_proxy(ours, parent, rules)
    finally:
        os._exit(1)


def _run_proxy(channel: socket.socket, parent: int, rules: str) -> None:
    """Wait for the listening socket and the first connection, and then run the proxy."""
    import json
    import select

    options = json.loads(rules)
    # The output of the sandbox ends only when no process holds it, so the proxy must not.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    sandbox = os.pidfd_open(parent)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    channel.close()
    listener = socket.socket(fileno=descriptors[0])
    ready, _, _ = select.select([sandbox, listener.fileno()], [], [])
    if sandbox in ready:
        return
    sys.path += options["path"]
    from mcp_bridge._runtime.egress.proxy import run_proxy

    run_proxy(listener, sandbox, options["hosts"], options["addresses"])


def run_inside(no_proxy: str, command: list[str]) -> NoReturn:
    """Send a listening socket to the proxy and execute the command with the variables of the proxy."""
    address = ("127.0.0.1", PORT)
    try:
        with socket.create_server(address, backlog=_BACKLOG) as server, socket.socket(fileno=_CHANNEL) as channel:
            socket.send_fds(channel, [b"\0"], [server.fileno()])
    except OSError as error:
        sys.exit(f"the sandbox has lost its proxy: {error.strerror}")
    variables = dict.fromkeys(_PROXY_VARIABLES, f"http://127.0.0.1:{PORT}") | {"NO_PROXY": no_proxy}
    for name, value in variables.items():
        os.environ[name] = os.environ[name.lower()] = value
    # Node.js ignores these variables otherwise.
    os.environ["NODE_USE_ENV_PROXY"] = "1"
    _execute(command)


def _execute(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)  # noqa: S606 - the bridge's own command
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    # The supervisor uses the same code.
    sys.exit(127)


if __name__ == "__main__":
    run = {"outside": run_outside, "inside": run_inside}[sys.argv[1]]
    run(sys.argv[2], sys.argv[3:])
