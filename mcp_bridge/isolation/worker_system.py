"""Limits, signals and exit statuses of worker processes; on each system as far as it supports them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from mcp_bridge.isolation.order import WorkerLimits
from mcp_bridge.runtime import supervisor


def apply_limits(limits: WorkerLimits) -> None:
    """Apply the limits to this process; processes that it starts inherit them."""
    if sys.platform == "win32":
        return
    import resource

    _lower_limit(resource.RLIMIT_AS, limits.memory)
    _lower_limit(resource.RLIMIT_NOFILE, limits.files)
    _lower_limit(resource.RLIMIT_FSIZE, limits.file_size)
    _lower_limit(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # further writing raises OSError then, instead of ending the process


def _lower_limit(which: int, most: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit of the address space
        resource.setrlimit(which, (most, most))


def allow_cpu(seconds: float | None) -> None:
    """Allow this process so many more seconds of computing time, rounded up; then the system ends it."""
    if seconds is None or sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):  # it is more than the hard limit, which holds then
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


def wrap_command(command: list[str]) -> list[str]:
    """Return the command below a supervisor, which ends all that it starts when it, or the server, has gone."""
    if sys.platform == "win32":
        return command
    return [sys.executable, "-I", "-S", supervisor.__file__, *command]


def terminate_worker(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGKILL)


def describe_status(code: int | None, *, sandboxed: bool) -> str:
    """Describe how a process has ended: by which signal, or with which exit code."""
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
