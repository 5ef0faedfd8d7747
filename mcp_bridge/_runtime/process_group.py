"""Process groups: commands below a supervisor, and signals to them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from mcp_bridge._runtime import supervisor_script

_USUAL_VARIABLES = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "TMPDIR", "TZ", "SYSTEMROOT")


def build_environment(*named: str) -> dict[str, str]:
    """Return the environment of a child: the usual variables and the named ones, if they are set."""
    return {name: os.environ[name] for name in (*_USUAL_VARIABLES, *named) if name in os.environ}


def wrap_command(command: Sequence[str], *, grace: float = 0.0, stdin: int = 0) -> list[str]:
    """Return the command below a supervisor, which ends its processes when the command or this process has ended.

    `grace` is the time of the processes between SIGTERM and SIGKILL in seconds. `stdin` is an inherited descriptor for
    the input of the command, if that does not end with this process.
    """
    if sys.platform == "win32":
        return list(command)
    return [sys.executable, "-I", "-S", supervisor_script.__file__, f"{grace:g}:{stdin}", *command]


def terminate_supervisor(pid: int) -> None:
    """Let the supervisor end its command, with all processes below it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)


def kill_group(pid: int) -> None:
    """Kill a supervisor and its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGKILL)
