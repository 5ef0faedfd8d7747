"""What workers need from the operating system: limits, lists of processes, and the meaning of exit statuses."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Set
from typing import TYPE_CHECKING

from mcp_bridge._isolation.order import WorkerLimits

_CLOCK_ERROR = 1.0
"""Seconds by which the start of a process may seem too early. Linux counts from a boot time in whole seconds."""

if TYPE_CHECKING:
    import psutil


def apply_limits(limits: WorkerLimits, *, is_contained: bool) -> None:
    """Apply the limits to this process. Its children inherit them. A container limits the memory itself."""
    if sys.platform == "win32":
        return
    import resource

    if not is_contained:
        _lower_limit(resource.RLIMIT_AS, limits.memory)
    _lower_limit(resource.RLIMIT_NOFILE, limits.files)
    _lower_limit(resource.RLIMIT_FSIZE, limits.file_size)
    _lower_limit(resource.RLIMIT_CORE, 0)
    # By default, SIGXFSZ ends a process that writes too large a file. Without the signal, writing raises OSError.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _lower_limit(which: int, limit: int) -> None:
    import resource

    _, hard_limit = resource.getrlimit(which)
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    # macOS does not support a limit of the address space.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (limit, limit))


def list_processes(pid: int) -> frozenset[psutil.Process]:
    """Return the processes below a process, such as a supervisor or the first process of a container."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return frozenset(psutil.Process(pid).children(recursive=True))
    return frozenset()


def kill_started_since(pid: int, began: float, spared: Set[psutil.Process]) -> None:
    """Kill the processes below a process that were started after `began`, a Unix time, except `spared`."""
    import psutil

    for process in list_processes(pid) - spared:
        with contextlib.suppress(psutil.Error):
            if process.create_time() >= began - _CLOCK_ERROR:
                process.kill()


def describe_status(code: int | None, *, sandboxed: bool) -> str:
    """Return the end of a sentence about the signal or the exit code that has ended a process.

    A sandbox reports a signal as an exit code above 128, as shells do.
    """
    if code is None:
        return "was lost"
    if code < 0:
        number = -code
    elif sandboxed and code > 128:
        number = code - 128
    else:
        return f"ended its process with exit code {code}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"was ended by {name}"
