"""Builds the commands and environments of child processes below a supervisor, and ends their process groups."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from mcp_bridge._runtime import supervisor_script

_USUAL_VARIABLES = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "TMPDIR", "TZ", "SYSTEMROOT")


def build_environment(*named: str) -> dict[str, str]:
    """Return the environment of a child: the usual variables and the named ones, if they are set.

    A child gets no other variables, because they may contain secrets of the bridge.
    """
    return {name: os.environ[name] for name in (*_USUAL_VARIABLES, *named) if name in os.environ}


def wrap_command(
    command: Sequence[str], *, grace: float = 0.0, stdin: int = 0, cleanup: Sequence[str] = ()
) -> list[str]:
    """Return the command of a supervisor around `command`.

    When `command` or this process has ended, the supervisor ends the processes that `command` has started.

    `grace` are the seconds between SIGTERM and SIGKILL. `stdin` is an inherited descriptor for the input of the
    command, if that is not standard input. The supervisor notices the end of this process by the end of standard input.
    `cleanup` is a command that it runs after `command` has ended in another way than with exit code 0.
    """
    if sys.platform == "win32":
        return list(command)
    order = f"{grace:g}:{stdin}:{len(cleanup)}"
    return [sys.executable, "-I", "-S", supervisor_script.__file__, order, *cleanup, *command]


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
