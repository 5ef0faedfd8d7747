"""What stands between the bridge and a worker: when either has gone, all that the worker has started goes too.

Run by its path, on the standard library alone: `python -I -S keeper.py COMMAND...`. It leads the process group, never
reads the worker's input but sees the bridge leave it, takes in what the worker's children leave behind (on Linux), and
ends as the worker has ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

LEAVING = 2.0
"""Seconds that the worker has to end by itself once the bridge has gone."""
SWEEPING = 2.0
"""Seconds in which something of what is left has to end; else the whole group is killed, the keeper too."""
MOST = 20.0
"""Seconds for the end of all of it."""
_PDEATHSIG, _SUBREAPER = 1, 36
_INPUT = 0


def keep(command: list[str]) -> None:
    """Run a command to its end, or to that of the bridge. Ends this process in the same way."""
    _close_others()
    hears, tells = os.pipe()
    for end in (hears, tells):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(tells)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _heard)
    _control(_SUBREAPER, 1)
    worker = os.fork()
    if not worker:
        _become(command)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    status = _watch(worker, hears)
    if not _sweep():
        os.killpg(0, signal.SIGKILL)
    _end_like(status)


def _close_others() -> None:
    """Some event loops hand on more than the standard streams; a worker's output would never end here."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                os.close(int(name))


def _heard(*_: object) -> None:
    """Signals are heard through the descriptor that they wake."""


def _become(command: list[str]) -> None:
    with contextlib.suppress(OSError):
        _control(_PDEATHSIG, signal.SIGKILL)
        os.execvp(command[0], command)  # noqa: S606 - the bridge's own command
    os._exit(127)


def _watch(worker: int, hears: int) -> int:
    """How the worker has ended, as `waitpid` says it; as if killed, when the bridge does not want it any more."""
    poll = select.poll()
    poll.register(_INPUT, 0)
    poll.register(hears, select.POLLIN)
    end = None
    while end is None or time.monotonic() < end:
        for descriptor, _ in poll.poll(None if end is None else max(0, (end - time.monotonic()) * 1000)):
            if descriptor == _INPUT:
                poll.unregister(_INPUT)
                end = time.monotonic() + LEAVING
            elif signal.SIGTERM in os.read(hears, 512):
                return signal.SIGKILL
        if (status := _reaped(worker)) is not None:
            return status
    return signal.SIGKILL


def _reaped(worker: int) -> int | None:
    """Take in whoever has ended; how, where the worker is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == worker:
                found = ended[1]
    return found


def _sweep() -> bool:
    """End every child; those of the ended become this process's own. Whether none is left.

    As long as some end there is more time: whoever has forked thousands has forked what takes seconds to end.
    """
    began = last = time.monotonic()
    while time.monotonic() < min(last + SWEEPING, began + MOST):
        children = _children()
        for child in children:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, 0 if children else os.WNOHANG)
            if not children and not ended:  # they cannot be seen here
                return False
            while os.waitpid(-1, os.WNOHANG)[0]:  # all at once: to list thousands again for each would take minutes
                pass
        except ChildProcessError:
            return sys.platform == "linux"
        last = time.monotonic()
    return False


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(child) for child in listed.read().split()]
    except OSError:
        return []


def _end_like(status: int) -> None:
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    import resource

    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _control(what: int, value: int) -> None:
    """prctl, where there is one."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    keep(sys.argv[1:])
