"""The supervisors around a server (Linux), as `supervisor` describes them: the front and the reaper."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

# Importing `typing` would enlarge the supervisors.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn

KILL_DELAY = 5.0
"""Seconds from the second signal to the SIGKILL of the server.

The server exits sooner, unless an import or another call into a library written in C never returns to Python, which
handles signals only between its own instructions.
"""
_SI_KERNEL = 0x80
"""The `si_code` of a signal that the kernel has sent, such as a terminal's (sigaction(2))."""
_COUNTED = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end the server. A second one means "immediately", so they must not be counted twice."""
_FORWARDED = (*_COUNTED, "SIGQUIT", "SIGUSR1", "SIGUSR2")
RELAY_SIGNAL = signal.Signals["SIGRTMIN"] + 5
"""The signal of the front in place of the counted ones."""
_COUNTING, _SERVER, _STATUS, COUNTS = range(4)
"""The places of numbers in the page of memory that front, reaper and server share.

_COUNTING: A bit for each signal that the server takes as a count. _SERVER: Its process id while it runs, else 0.
_STATUS: Its exit status plus 1 after its end, else 0. COUNTS and the following: How often the front has received each
signal, by its number.
"""


class Supervisor:
    """The supervisor as the server sees it: a counter of signals.

    One signal may reach the front, the server, or both: a terminal and `killpg` send it to the whole group. So the
    front does not send the same signal again. It counts the signal and sends `relay_signal` instead. For each signal
    number, the server uses the greater of the front's count and its own.
    """

    def __init__(self, numbers: memoryview[int]) -> None:
        self._numbers = numbers
        self.relay_signal = RELAY_SIGNAL

    def start_counting(self, signals: Iterable[int]) -> None:
        """Make the front count these signals from now on. It sends all others to the server unchanged."""
        self._numbers[_COUNTING] = sum(1 << number for number in signals)

    def count_signals(self, number: int) -> int:
        """Return how many signals of this number the front has received since."""
        return self._numbers[COUNTS + number]


assert sys.platform == "linux"

from mcp_bridge._runtime.platform.supervisor import (
    GRACE,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    call_prctl,
    end_descendants,
    end_like,
    reap_children,
    release_streams,
)


def start_supervisor() -> Supervisor | None:
    """Fork the supervisor around this process and return in the server, its grandchild.

    The calling process does not return: it ends as the server ends, by exit code or signal.

    Returns:
        None without a supervisor, because this process has threads, or the system does not support it.
    """
    # A process with threads cannot fork safely.
    if len(os.listdir("/proc/self/task")) > 1 or not call_prctl(PR_SET_CHILD_SUBREAPER, 1):
        return None
    import mmap

    numbers = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("i")
    front = os.getpid()
    # If SIGCHLD were ignored, no exit status could be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_to_numbers(_FORWARDED)})
    # If the system can create no more processes, the server runs without the reaper, or without both supervisors.
    with contextlib.suppress(OSError):
        if reaper := os.fork():
            _never_return(lambda: _run_front(numbers, reaper))
        call_prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        call_prctl(PR_SET_CHILD_SUBREAPER, 1)
        reaper = os.getpid()
        if server := os.fork():
            numbers[_SERVER] = server
            _never_return(lambda: _run_reaper(numbers, front, server))
        call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != reaper:
            os._exit(1)
    numbers[_SERVER] = os.getpid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Supervisor(numbers) if os.getpid() != front else None


def _run_front(numbers: memoryview[int], reaper: int) -> NoReturn:
    """Forward signals until the server and all processes below it have ended; then end as the server has."""
    # Except for SIGINT and SIGTERM, a signal that was ignored at the start, as under `nohup`, stays ignored.
    signals = {signal.SIGINT, signal.SIGTERM}
    for number in _to_numbers(_FORWARDED):
        if signal.getsignal(number) != signal.SIG_IGN:
            signals.add(number)
    release_streams()
    status, deadline = None, float("inf")
    while status is None:
        info: signal.struct_siginfo | None
        if deadline == float("inf"):
            info = signal.sigwaitinfo({signal.SIGCHLD, *signals})
        else:
            info = signal.sigtimedwait({signal.SIGCHLD, *signals}, max(0.0, deadline - time.monotonic()))
        if info is None:
            # The deadline has passed. The number is read only once, because it may become 0 at any time, and a signal
            # to 0 would go to the whole process group.
            server = numbers[_SERVER]
            if server:
                # The server may just have ended.
                with contextlib.suppress(OSError):
                    os.kill(server, signal.SIGKILL)
            deadline = float("inf")
        elif info.si_signo == signal.SIGCHLD:
            status = reap_children(reaper)
        else:
            _forward_signal(info.si_signo, info.si_code, numbers, reaper)
            is_counted = info.si_signo in _to_numbers(_COUNTED)
            if is_counted and sum(numbers[COUNTS + number] for number in _to_numbers(_COUNTED)) == 2:
                deadline = time.monotonic() + KILL_DELAY
    end_descendants(GRACE)
    if numbers[_STATUS]:
        status = numbers[_STATUS] - 1
    end_like(status)


def _forward_signal(number: int, code: int, numbers: memoryview[int], reaper: int) -> None:
    """Send a signal with this `si_code` to the server, or count it and send the relay signal."""
    server = numbers[_SERVER]
    # Without a process id, the server is just being forked, or it has just ended.
    while not server:
        if numbers[_STATUS] or os.waitid(os.P_PID, reaper, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
        server = numbers[_SERVER]
    with contextlib.suppress(OSError):
        if numbers[_COUNTING] >> number & 1:
            numbers[COUNTS + number] += 1
            os.kill(server, RELAY_SIGNAL)
        elif code != _SI_KERNEL or number == signal.SIGHUP:
            # The server has already received a signal of the kernel, because a terminal sends it to the whole group.
            # Only SIGHUP goes to the leader of the session alone, which can be the front.
            os.kill(server, number)


def _run_reaper(numbers: memoryview[int], front: int, server: int) -> NoReturn:
    """Wait until the server has ended or the front was killed, and then end all remaining processes."""
    with contextlib.suppress(OSError):
        # The end of a reaper in the server's session would orphan the group, and its stopped members would get SIGHUP.
        os.setsid()
    release_streams()
    status = None
    while status is None:
        # With another parent, the front was killed. The client knows only the front, so it meant to kill the server.
        if os.getppid() != front:
            os.kill(server, signal.SIGKILL)
        signal.sigwaitinfo({signal.SIGCHLD, signal.SIGTERM})
        status = reap_children(server)
    numbers[_STATUS] = status + 1
    numbers[_SERVER] = 0
    end_descendants(GRACE)
    os._exit(0)


def _never_return(run: Callable[[], NoReturn]) -> NoReturn:
    """Run a function that ends the process. After an error, end it too: it would go on as a second server."""
    try:
        run()
    finally:
        os._exit(70)


def _to_numbers(names: Sequence[str]) -> list[signal.Signals]:
    return [signal.Signals[name] for name in names]
