"""What workers need from the operating system: limits, lists of processes, and the meaning of exit statuses."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Set
from typing import TYPE_CHECKING

from mcp_bridge._isolation.order import WorkerLimits
from mcp_bridge._runtime.platform import system

_CLOCK_ERROR = 1.0
"""Seconds by which the start of a process may seem too early. Linux counts from a boot time in whole seconds."""

if TYPE_CHECKING:
    import psutil


def apply_limits(limits: WorkerLimits, *, is_contained: bool) -> None:
    """Apply the limits to this process. Its children inherit them. A container limits the memory itself."""
    numbers = {"NOFILE": limits.files, "FSIZE": limits.file_size, "CORE": 0}
    if not is_contained:
        numbers["AS"] = limits.memory
    system.limit_resources(numbers)
    system.ignore_file_size_signal()


def list_processes(pid: int) -> frozenset[psutil.Process]:
    """Return the descendants of a process, such as a supervisor or the first process of a container."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return frozenset(psutil.Process(pid).children(recursive=True))
    return frozenset()


def kill_started_since(pid: int, began: float, spared: Set[psutil.Process]) -> None:
    """Kill the descendants of a process that were started after `began`, a Unix time, except `spared`."""
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
