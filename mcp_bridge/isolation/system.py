"""What only POSIX, or only Linux, can do for a worker; elsewhere the same functions do what there is to be done."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from mcp_bridge.isolation.order import Limits
from mcp_bridge.runtime import supervisor


def restrict(limits: Limits) -> None:
    """Hold this process to its limits from now on; what it starts inherits them."""
    if sys.platform == "win32":
        return
    import resource

    _lower(resource.RLIMIT_AS, limits.memory)
    _lower(resource.RLIMIT_NOFILE, limits.files)
    _lower(resource.RLIMIT_FSIZE, limits.file_size)
    _lower(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing on is an OSError then, and not the end


def _lower(which: int, most: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit of the address space
        resource.setrlimit(which, (most, most))


def allow_cpu(seconds: float | None) -> None:
    """End this process when it has computed for so many seconds more; they are whole ones, rounded up."""
    if seconds is None or sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):  # more than its own limit, which holds then
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


def kept(command: list[str]) -> list[str]:
    """Return the command below a supervisor, which ends all that it starts when it, or the server, has gone."""
    if sys.platform == "win32":
        return command
    return [sys.executable, "-I", "-S", supervisor.__file__, *command]


def end(pid: int) -> None:
    """Have a worker's keeper end it, and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)


def kill(pid: int) -> None:
    """End a keeper too, and all that is still of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGKILL)


def ended(code: int | None, *, sandboxed: bool) -> str:
    """How a process has ended, in words: by which signal, or with which exit code."""
    if code is None:
        return "was lost"
    number = -code if code < 0 else code - 128 if sandboxed and code > 128 else 0
    if not number:
        return f"ended its process with exit code {code}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if name == "SIGXCPU":
        return "computed for longer than it may"
    return f"was ended by {name}"
