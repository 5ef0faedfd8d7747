"""The processes below a process, and how they are ended. psutil is imported on first use."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

TICK = 0.011
"""Seconds by which a time of creation may be early: Linux counts them in hundredths."""
_LOOK = 0.02
_KEEPER = str(Path("mcp_bridge", "isolation", "keeper.py"))
_NO_TOOLS = ("mcp_bridge.isolation.worker", "multiprocessing.resource_tracker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A process. `lineage` has its id, those between it and the root, and those of its session and its group."""

    process: psutil.Process
    name: str
    created: float
    lineage: tuple[int, ...] = field(compare=False)

    @property
    def pid(self) -> int:
        """Its id."""
        return int(self.process.pid)


def found(root: int) -> list[Found]:
    """All processes below `root` that tools have started, parents before their children.

    This process is left out, and workers of isolation, which have keepers of their own, with all below them.
    """
    import psutil

    above: dict[int, tuple[int, ...]] = {}
    ours = {os.getpid()}
    every: list[Found] = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError), process.oneshot():
                parent = process.ppid()
                if process.pid in ours:
                    continue
                if (parent in ours and parent != os.getpid()) or _is_ours(process):
                    ours.add(process.pid)
                    continue
                above[process.pid] = (process.pid, *above.get(parent, ()))
                if process.status() != psutil.STATUS_ZOMBIE:
                    lineage = (*above[process.pid], *_company(process.pid))
                    created = _created(process)
                    every.append(Found(process=process, name=process.name(), created=created, lineage=lineage))
    return every


def _created(process: psutil.Process) -> float:
    """When, on the clock of `process_owners`. psutil adds the time of boot on Linux, which may be another each time."""
    if sys.platform != "linux":
        return float(process.create_time())
    fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def end(processes: Sequence[psutil.Process], grace: float) -> None:
    """Have them end; those that are there after `grace` seconds are killed. Nobody is waited for who has a parent here.

    Taking in a child of somebody else in this process would lose its exit code.
    """
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
            process.resume()  # one that is stopped hears nothing
    until = time.monotonic() + grace
    while left := [process for process in processes if _is_there(process)]:
        if time.monotonic() > until:
            break
        time.sleep(_LOOK)
    for process in left:
        with contextlib.suppress(psutil.Error):
            for below in (*process.children(recursive=True), process):
                below.kill()


def _is_there(process: psutil.Process) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_ours(process: psutil.Process) -> bool:
    """Whether it is none that a tool has started: a worker, or what Python has for its own."""
    line = process.cmdline()[:6]
    return any(word.endswith(_KEEPER) or any(own in word for own in _NO_TOOLS) for word in line)


def _company(pid: int) -> tuple[int, ...]:
    """The leaders of its session and of its group: a daemon's are often all that is left of whoever started it."""
    if sys.platform == "win32":
        return ()
    with contextlib.suppress(OSError):
        return (os.getsid(pid), os.getpgid(pid))
    return ()
