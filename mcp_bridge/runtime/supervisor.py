"""The supervisor: two small processes around the command, which end every process that it leaves behind (Linux).

The process that a client has launched, the front, forks before anything heavy is imported and before any thread is
there. It passes signals on, and ends as the bridge ends. Its child, the keeper, leaves the session, so that a
SIGKILL of the whole group spares it; it takes in what the bridge's children leave behind, and ends it. The bridge is
the keeper's child, in the group that the client made: terminals, job control and signals to a group work as ever.
Whichever of the three is killed, another one is left to end the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

GRACE = 1.0
"""Seconds that what is left has between SIGTERM and SIGKILL."""
SWEEPING = 10.0
"""Seconds for the end of all that is left: what a SIGKILL does not end in that time (a dead disk) is let be."""
_PDEATHSIG, _SUBREAPER = 1, 36
_BY_THE_KERNEL = 0x80
_COUNTED = ("SIGINT", "SIGTERM", "SIGHUP")
_PASSED_ON = (*_COUNTED, "SIGQUIT", "SIGUSR1", "SIGUSR2")


class Page:
    """What the three processes know together: a page of memory with a few numbers, each at its place."""

    LISTENING, BRIDGE, STATUS, COUNTS = range(4)
    """Whether the bridge takes counted signals, its process while it is there, 1 more than how it has ended."""

    def __init__(self) -> None:
        import mmap

        self._numbers = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("i")

    def __getitem__(self, place: int) -> int:
        return self._numbers[place]

    def __setitem__(self, place: int, number: int) -> None:
        self._numbers[place] = number


class Guard:
    """The guard, as the bridge sees it. `keeper` is the process below which all is that the bridge has started.

    A signal may reach the front, the bridge, or, from a terminal and for a group, both. So the front does not send the
    bridge another of the same: it counts, and sends `number`. Whoever listens takes the greater of both counts.
    """

    def __init__(self, page: Page, keeper: int) -> None:
        self._page = page
        self.keeper = keeper
        self.number = relayed()

    def listen(self) -> None:
        """From now on signals are counted; until now each is sent to the bridge as it is."""
        self._page[Page.LISTENING] = 1

    def count(self, number: int) -> int:
        """How many signals of a number the front was sent since."""
        return self._page[Page.COUNTS + number]


def stand(arguments: Sequence[str]) -> Guard | None:
    """Begin: this returns in the bridge; None where there is no guard. `arguments` are those of the command.

    The process that calls this does not return from it: it ends as the bridge ends, by its exit code or its signal.
    """
    if not _wanted(arguments) or not control(_SUBREAPER, 1):
        return None
    page, front = Page(), os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, nobody's end could be waited for
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_numbers(_PASSED_ON)})
    with contextlib.suppress(OSError):  # no process is to be had: the bridge goes without one of them, or both
        if keeper := os.fork():
            _for_good(_Front(page, keeper).stay)
        control(_PDEATHSIG, signal.SIGTERM)
        control(_SUBREAPER, 1)
        keeper = os.getpid()
        if bridge := os.fork():
            page[Page.BRIDGE] = bridge
            _for_good(_Keeper(page, front, bridge).stay)
        control(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
    page[Page.BRIDGE] = os.getpid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Guard(page, os.getppid()) if os.getpid() != front else None


def relayed() -> int:
    """The number of the signal that stands for those that are counted."""
    return int(signal.SIGRTMIN) + 5


def control(what: int, value: int) -> bool:
    """prctl; whether there is one that does this."""
    if sys.platform != "linux":
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return not ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
    return False


def _wanted(arguments: Sequence[str]) -> bool:
    """Whether these are of `serve`, without `--no-guard`: the options are read before anything can read them.

    Not where other threads are at work already: a process with threads cannot fork safely.
    """
    if sys.platform != "linux" or arguments[:1] != ["serve"] or len(os.listdir("/proc/self/task")) > 1:
        return False
    options = [word for word in arguments if word in {"--guard", "--no-guard", "--help", "-h"}]
    return not options or options[-1] == "--guard"


class _Front:
    """The process that was launched."""

    def __init__(self, page: Page, keeper: int) -> None:
        self._page = page
        self._keeper = keeper
        heard = [number for number in _numbers(_PASSED_ON) if self._hears(number)]
        self._heard = {signal.SIGCHLD, *heard}

    def stay(self) -> NoReturn:
        """Pass signals on until the bridge has ended, and all that was below it; then end as it has."""
        _let_go()
        ended = None
        while ended is None:
            came = signal.sigwaitinfo(self._heard)
            if came.si_signo == signal.SIGCHLD:
                ended = _reaped(self._keeper)
            else:
                self._pass_on(came)
        sweep()
        _end_like(self._page[Page.STATUS] - 1 if self._page[Page.STATUS] else ended)

    def _hears(self, number: int) -> bool:
        """SIGINT and SIGTERM in any case; what was ignored at the start, as `nohup` has it, else stays so."""
        return number in {signal.SIGINT, signal.SIGTERM} or signal.getsignal(number) != signal.SIG_IGN

    def _pass_on(self, came: signal.struct_siginfo) -> None:
        number, page = came.si_signo, self._page
        while not (bridge := page[Page.BRIDGE]):  # it is just being forked, or has just ended
            if page[Page.STATUS] or os.waitid(os.P_PID, self._keeper, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            time.sleep(0.001)
        with contextlib.suppress(OSError):
            if page[Page.LISTENING] and number in _numbers(_COUNTED):
                page[Page.COUNTS + number] += 1
                os.kill(bridge, relayed())
            elif came.si_code != _BY_THE_KERNEL:  # a terminal has sent it to the bridge too
                os.kill(bridge, number)


class _Keeper:
    """The process between: nobody knows it, so nobody ends it."""

    def __init__(self, page: Page, front: int, bridge: int) -> None:
        self._page = page
        self._front = front
        self._bridge = bridge

    def stay(self) -> NoReturn:
        """Wait until the bridge has ended, or the front was killed; then end all that is left."""
        with contextlib.suppress(OSError):
            os.setsid()  # in the bridge's own, its end would be the end of a job: all others of its group get SIGHUP
        _let_go()
        ended = None
        while ended is None:
            if os.getppid() != self._front:  # it was killed, which was meant for the bridge
                os.kill(self._bridge, signal.SIGKILL)
            signal.sigwaitinfo({signal.SIGCHLD, signal.SIGTERM})
            ended = _reaped(self._bridge)
        self._page[Page.STATUS], self._page[Page.BRIDGE] = ended + 1, 0
        sweep()
        os._exit(0)


def sweep(grace: float = GRACE, most: float = SWEEPING) -> None:
    """End all that is below this process: SIGTERM, and after the `grace` SIGKILL, until there is nothing."""
    began, told = time.monotonic(), set[int]()
    while _has_children():
        spent = time.monotonic() - began
        if spent > most:
            return
        for pid in below(os.getpid()):
            with contextlib.suppress(OSError):
                if spent > grace:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in told:
                    told.add(pid)
                    os.kill(pid, signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)  # one that is stopped hears nothing
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)


def below(root: int) -> list[int]:
    """All processes below one, parents before their children; those that have ended are left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, parent = stat.read().rpartition(b")")[2].split()[:2]
                if state not in b"ZX":
                    children.setdefault(int(parent), []).append(int(name))
    found = [*children.get(root, ())]
    for pid in found:  # it grows
        found += children.get(pid, ())
    return found


def _has_children() -> bool:
    """Take in those that have ended; whether others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _reaped(child: int) -> int | None:
    """Take in all that have ended; how, where the child is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = ended[1]
    return found


def _numbers(names: Sequence[str]) -> list[signal.Signals]:
    return [signal.Signals[name] for name in names]


def _let_go() -> None:
    """Hold nothing that the client waits for the end of."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                os.close(int(name))


def _for_good(stay: Callable[[], NoReturn]) -> NoReturn:
    """Whatever happens, this process never comes back as a second bridge."""
    try:
        stay()
    finally:
        os._exit(70)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        import resource

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process of a container is not ended by its own signals
    os._exit(os.waitstatus_to_exitcode(status))
