"""Commands in forks of one process with the imports already done, because imports take most of their time.

A program on the PATH of a test sends its standard streams, arguments, folder and environment to that process over a
socket, and exits as the fork does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

from tests.kits.paths import ROOT

MODULE = "mcp_bridge"
_PROCESSES: list[subprocess.Popen[str]] = []
"""The processes to fork. They are kept here so that their standard input stays open: they exit at its end."""
CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    order = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(order).to_bytes(4)], [0, 1, 2])
    server.sendall(order)
    sys.exit(int(server.recv(16) or b"1"))
"""


@functools.cache
def get_forked_command() -> list[str]:
    """Return the command line that runs `mcp_bridge` or a script in a fork. The process to fork starts once."""
    process, command = start_process_to_fork([sys.executable, "-m", "tests.kits.forked_commands"])
    _PROCESSES.append(process)
    return command


def start_process_to_fork(
    program: list[str], env: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], list[str]]:
    """Start a process that runs `main`, and return it with the command line that runs commands in its forks.

    The process exits at the end of its standard input.
    """
    folder = Path(tempfile.mkdtemp(prefix="fc"))
    client, path = folder / "client.py", folder / "socket"
    client.write_text(CLIENT, encoding="utf-8")
    # A client gives the process the same pipes.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*program, str(path)], cwd=ROOT, env=env, text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process, [sys.executable, "-I", "-S", str(client), str(path)]


def main() -> None:
    """Run orders, one after the other, until standard input ends."""
    for name in ("mcp.client", "mcp_bridge._cli.app", "mcp_bridge._server", "mcp_bridge.testing", "rich.table"):
        importlib.import_module(name)
    # Garbage collections in forks then do not copy existing objects.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(sys.argv[1])
        server.listen()
        print("ready", flush=True)
        while True:
            if sys.stdin in select.select([server, sys.stdin], [], [])[0]:
                shutil.rmtree(Path(sys.argv[1]).parent)
                return
            connection, _ = server.accept()
            with connection:
                head, streams, _, _ = socket.recv_fds(connection, 4, 3)
                order = connection.makefile("rb").read(int.from_bytes(head))
                child = os.fork()
                if not child:
                    break
                for stream in streams:
                    os.close(stream)
                _, status = os.waitpid(child, 0)
                with contextlib.suppress(OSError):
                    connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    arguments, folder, environ = json.loads(order)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    # The regular exit would take 0.3 seconds to tear down all modules.
    os._exit(_run(arguments, folder))


def _run(arguments: list[str], folder: str) -> int:
    """Run a command and return its exit code."""
    sys.argv = arguments
    code: object = 0
    try:
        if arguments[0] == MODULE:
            sys.path[0] = folder
            runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(arguments[0]).parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if (measured := sys.modules.get("coverage")) and (coverage := measured.Coverage.current()):
        coverage.stop()
        coverage.save()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    main()
