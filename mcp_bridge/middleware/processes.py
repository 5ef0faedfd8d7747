"""The processes of a call that was given up are ended: of one that was cancelled, or timed out."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from enum import Enum, auto

import anyio

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.extension import CallNext
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.runtime.process_owners import RUN, Run, clock
from mcp_bridge.runtime.process_tree import TICK, Found, end, found

logger = logging.getLogger("mcp_bridge.processes")

GRACE = 2.0
YOUNG = 0.2
"""Seconds in which a process may not be yet what it will be: before `exec` it looks like the bridge."""
_SOON, _LATER = 0.1, 2.0


class Whose(Enum):
    """To whom a process belongs: the call that was given up, another one, or one that cannot be told yet."""

    ITS = auto()
    ANOTHERS = auto()
    UNTOLD = auto()


class Processes:
    """The innermost layer of a pipeline. A call that ends well costs it a note of when it began.

    A process that was seen being started belongs to the call that did so, with all that is below it. Of the others one
    that appeared during a call is that call's, unless another call may have started it: then it stays until that one
    has ended, and for good where that has ended well and has started processes. `root` is the process below which they
    are looked for, where that is not this one; `grace` the seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, *, grace: float = GRACE, root: int | None = None) -> None:
        self._grace = grace
        self._root = root
        self._running: set[Run] = set()
        self._past: list[Run] = []
        self._given_up: list[Run] = []
        self._clean: set[Run] = set()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """Go on; note when a call begins and how it ends."""
        outer = RUN.get()
        run = Run(call.name, outer, self._late)
        RUN.set(run)
        self._running.add(run)
        try:
            return await call_next(call, ctx)
        except BaseException:
            run.given_up = anyio.current_effective_deadline() == float("-inf")
            raise
        finally:
            RUN.set(outer)
            run.ended = run.begun  # known better where it is remembered
            self._running.discard(run)
            if run.given_up or run.started:
                self._late(run)

    def _late(self, run: Run) -> None:
        """A call that has to be remembered has ended, or starts processes although it has."""
        with self._lock:
            run.ended = clock()
            if not run.given_up:
                oldest = min((other.begun for other in (*self._running, *self._given_up)), default=run.ended)
                self._past = [one for one in self._past if one is not run and (one.ended or 0) + 1 > oldest]
                self._past.append(run)
                return
            if run not in self._given_up:
                self._given_up.append(run)
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="mcp-bridge processes", daemon=True)
                with suppress(RuntimeError):  # no thread is to be had: the next call that is given up tries again
                    self._thread.start()
                    return
                self._thread = None

    def _work(self) -> None:
        """Judge until nothing is left to be judged; outside of the event loop."""
        pause, over = _SOON, set[Found]()
        while True:
            self._news.clear()
            with self._lock:
                runs = list(self._given_up)
                if not runs:
                    self._thread = None
                    return
            doomed = list[Found]()
            try:
                doomed = self._judge(runs, over)
            except Exception:
                logger.exception("the processes of calls that were given up cannot be judged")
                self._done(runs)
            over.update(doomed)
            pause = _SOON if doomed else min(2 * pause, _LATER)
            if self._news.wait(pause):
                pause = _SOON

    def _judge(self, runs: Sequence[Run], over: Set[Found]) -> list[Found]:
        """Look at all processes once, and end those that are to be; which these were. Nothing is ended twice."""
        seen = [each for each in found(self._root or os.getpid()) if each not in over]
        now, doomed, done = clock(), list[Found](), []
        for run in runs:
            its, untold = self._of(run, seen)
            if old := [each for each in its if now - each.created > YOUNG]:
                named = ", ".join(f"{each.name} ({each.pid})" for each in old)
                logger.warning("ended what the call of '%s' has left, which was given up: %s", run.name, named)
                doomed += old
            if its or untold:
                continue
            if run in self._clean:
                done.append(run)
            self._clean.add(run)  # one that was just being born may have been missed
        end([each.process for each in doomed], self._grace)
        self._done(done)
        return doomed

    def _done(self, runs: Sequence[Run]) -> None:
        with self._lock:
            self._given_up = [run for run in self._given_up if run not in runs]
            self._clean.difference_update(runs)

    def _of(self, run: Run, seen: Sequence[Found]) -> tuple[list[Found], bool]:
        """What is to be ended for a call, and whether there is more that cannot be told yet."""
        its: dict[int, Found] = {}
        untold = False
        for each in seen:
            whose = self._whose(each, run)
            if whose is Whose.ITS or (whose is not Whose.ANOTHERS and any(pid in its for pid in each.lineage[1:])):
                its[each.pid] = each
            untold = untold or whose is Whose.UNTOLD
        return list(its.values()), untold

    def _whose(self, each: Found, run: Run) -> Whose:
        known = [*self._running, *self._past, *self._given_up]
        owner = _owner(each, [*known, run])
        if owner is not None:
            return Whose.ITS if owner is run else Whose.ANOTHERS
        if not run.spans(each.created, TICK):
            return Whose.ANOTHERS
        around = set(_around(run))
        rivals = [other for other in known if other not in around and _may_be_of(each, other, run)]
        if run.started or any(rival.started for rival in rivals):  # who was not seen to start any is not likely to have
            rivals = [rival for rival in rivals if rival.started]
        if any(rival.ended is not None and not rival.given_up for rival in rivals):
            return Whose.ANOTHERS
        return Whose.UNTOLD if any(rival.ended is None for rival in rivals) else Whose.ITS


def _owner(each: Found, runs: Sequence[Run]) -> Run | None:
    """Who was seen to start it, or the nearest of those above it."""
    for pid in each.lineage:
        owners = [run for run in runs if pid in run.started]
        if owners:
            return max(owners, key=lambda run: run.started[pid])
    return None


def _may_be_of(each: Found, other: Run, run: Run) -> bool:
    """Whether another call may have started it; where that ended just before, the order of ids is finer than time."""
    if other.ended is not None and other.ended <= run.begun and any(0 < pid < each.pid for pid in run.started):
        return False
    return other.spans(each.created, TICK)


def _around(run: Run) -> Iterator[Run]:
    """The call and those that it was made by: they wait for it."""
    inner: Run | None = run
    while inner is not None:
        yield inner
        inner = inner.outer
