"""Which call started which process, recorded where a process is started, so that calls do not pay for it."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

UNKNOWN = -1
"""Stands for a process whose id nobody is told."""
_FORKS = ("fork", "forkpty", "posix_spawn", "posix_spawnp")


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None) if sys.platform == "linux" else None
clock: Callable[[], float] = time.time if _BOOT is None else functools.partial(time.clock_gettime, _BOOT)
"""Seconds, on the clock that processes' times of creation are on: since the start of the machine on Linux."""


class Run:
    """A call that runs, or has run, and the processes that it was seen to start: when, by their ids.

    `outer` is the call that made it. `late` is told of processes that it starts once it has ended.
    """

    __slots__ = ("begun", "ended", "given_up", "late", "name", "outer", "started")

    def __init__(self, name: str, outer: Run | None, late: Callable[[Run], None]) -> None:
        self.name = name
        self.outer = outer
        self.late = late
        self.begun = clock()
        self.ended: float | None = None
        self.given_up = False
        self.started: dict[int, float] = {}

    def spans(self, moment: float, slack: float) -> bool:
        """Whether it ran at a moment, which may be early by the slack."""
        return self.begun - slack <= moment and (self.ended is None or moment <= self.ended)


RUN: ContextVar[Run | None] = ContextVar("mcp_bridge_run", default=None)
"""The call that this code belongs to, its threads and tasks too."""


def started(pid: int | None) -> None:
    """Note a process of the call that this is called in."""
    run = RUN.get()
    if run is None or not pid:
        return
    run.started[pid] = clock()
    if run.ended is not None:
        run.late(run)


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Until the end, every process that Python code starts is noted; in the command's own process alone."""
    system = os.system
    init, forks = subprocess.Popen.__init__, {name: getattr(os, name) for name in _FORKS if hasattr(os, name)}

    @functools.wraps(init)
    def noting(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        started(self.pid)

    def by_shell(line: Any) -> int:
        started(UNKNOWN)
        return system(line)

    _replace(subprocess.Popen, "__init__", noting)
    _replace(os, "system", by_shell)
    for name, fork in forks.items():
        _replace(os, name, _noting(fork))
    try:
        yield
    finally:
        _replace(subprocess.Popen, "__init__", init)
        _replace(os, "system", system)
        for name, fork in forks.items():
            _replace(os, name, fork)


def _noting(fork: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fork)
    def noting(*args: Any, **options: Any) -> Any:
        made = fork(*args, **options)
        started(made[0] if isinstance(made, tuple) else made)
        return made

    return noting


def _replace(where: Any, name: str, what: Any) -> None:
    setattr(where, name, what)
