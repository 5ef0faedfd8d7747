"""The supervisors are small processes. They end every process left behind by the server or by a worker.

Two of them are around the server (Linux only):

    front    the process that the client has started. It forwards signals, and ends as the server ends.
      reaper    leaves the session, so that a SIGKILL of the whole process group spares it. Orphans become its children,
                and it ends them.
        server    stays in the client's process group, so terminals, job control and signals to the group work as usual.

The front forks before any heavy import, so that it stays small, and before there is any thread, because a process with
threads cannot fork safely. After a SIGKILL of any of the three, another one ends the rest.

Each worker, and each server that is started as a child (POSIX), has one supervisor, which `supervisor_script.py` runs.
It leads the process group of the command, and ends as the command ends. When the command or the server has ended, it
ends all processes of the command. On Linux that includes orphans; elsewhere it kills the process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

# Importing `typing` would take a quarter of the time in which the script starts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from mcp_bridge._runtime.kernel_sandbox.restrictions import Restrictions

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for the remaining processes of the server."""
KILL_DELAY = 5.0
"""Seconds from the second signal to the SIGKILL of the server.

The server exits sooner, unless an import or another call into a library written in C never returns to Python, which
handles signals only between its own instructions.
"""
SWEEP_TIMEOUT = 10.0
"""Seconds until the supervisor ignores a process that survives SIGKILL, because it waits for a dead disk."""
WORKER_GRACE = 2.0
"""Seconds for a worker to end on its own after the server has ended."""
_IS_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2): a signal at the death of the parent, and adopting orphaned descendants."""
_SI_KERNEL = 0x80
"""The `si_code` of a signal that the kernel has sent, such as a terminal's (sigaction(2))."""
_COUNTED = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end the server. A second one means "immediately", so they must not be counted twice."""
_FORWARDED = (*_COUNTED, "SIGQUIT", "SIGUSR1", "SIGUSR2")


_IS_COUNTING, _SERVER, _STATUS, COUNTS = range(4)
"""The places of numbers in the page of memory that front, reaper and server share.

_IS_COUNTING: Whether the server takes counted signals. _SERVER: Its process id while it runs, else 0. _STATUS: Its exit
status plus 1 after its end, else 0. COUNTS and the following: How often the front has received each signal, by its
number.
"""


class Supervisor:
    """The supervisor as the server sees it: a counter of signals.

    One signal may reach the front, the server, or both: a terminal and `killpg` send it to the whole group. So the
    front does not send the same signal again. It counts the signal and sends `relay_signal` instead. For each signal
    number, the server uses the greater of the front's count and its own.
    """

    def __init__(self, numbers: memoryview[int]) -> None:
        self._numbers = numbers
        self.relay_signal = _get_relay_signal()

    def start_counting(self) -> None:
        """Make the front count signals from now on. Before, it sends each signal to the server unchanged."""
        self._numbers[_IS_COUNTING] = 1

    def count_signals(self, number: int) -> int:
        """Return how many signals of this number the front has received since."""
        return self._numbers[COUNTS + number]


def start_supervisor(arguments: Sequence[str]) -> Supervisor | None:
    """Fork the supervisor around this process and return in the server, its grandchild.

    The calling process does not return: it ends as the server ends, by exit code or signal.

    Args:
        arguments: The command line. Only `serve`, `worker` and `dev` without `--no-guard` have a supervisor.

    Returns:
        None without a supervisor: the arguments do not ask for one, or the system does not support it.
    """
    if not _is_wanted(arguments) or not _call_prctl(_PR_SET_CHILD_SUBREAPER, 1):
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
        _call_prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)
        reaper = os.getpid()
        if server := os.fork():
            numbers[_SERVER] = server
            _never_return(lambda: _run_reaper(numbers, front, server))
        _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != reaper:
            os._exit(1)
    numbers[_SERVER] = os.getpid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Supervisor(numbers) if os.getpid() != front else None


def _is_wanted(arguments: Sequence[str]) -> bool:
    """Whether this command gets a supervisor.

    The arguments are searched without the parser of options, which is not imported yet. With `--shared`, the server is
    another process. A process with threads gets no supervisor, because it cannot fork safely.
    """
    if sys.platform != "linux" or arguments[:1] not in (["serve"], ["worker"], ["dev"]):
        return False
    if "--shared" in arguments or len(os.listdir("/proc/self/task")) > 1:
        return False
    # Of several of these options, the last one counts.
    options = [word for word in arguments if word in {"--guard", "--no-guard", "--help", "-h"}]
    return not options or options[-1] == "--guard"


def _run_front(numbers: memoryview[int], reaper: int) -> NoReturn:
    """Forward signals until the server and all processes below it have ended; then end as the server has."""
    # Except for SIGINT and SIGTERM, a signal that was ignored at the start, as under `nohup`, stays ignored.
    signals = {signal.SIGINT, signal.SIGTERM}
    for number in _to_numbers(_FORWARDED):
        if signal.getsignal(number) != signal.SIG_IGN:
            signals.add(number)
    _release_streams()
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
            status = _reap_children(reaper)
        else:
            _forward_signal(info, numbers, reaper)
            is_counted = info.si_signo in _to_numbers(_COUNTED)
            if is_counted and sum(numbers[COUNTS + number] for number in _to_numbers(_COUNTED)) == 2:
                deadline = time.monotonic() + KILL_DELAY
    end_descendants(GRACE)
    if numbers[_STATUS]:
        status = numbers[_STATUS] - 1
    _end_like(status)


def _forward_signal(info: signal.struct_siginfo, numbers: memoryview[int], reaper: int) -> None:
    """Send a signal to the server, or count it and send the relay signal."""
    number = info.si_signo
    server = numbers[_SERVER]
    # Without a process id, the server is just being forked, or it has just ended.
    while not server:
        if numbers[_STATUS] or os.waitid(os.P_PID, reaper, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
        server = numbers[_SERVER]
    with contextlib.suppress(OSError):
        if numbers[_IS_COUNTING] and number in _to_numbers(_COUNTED):
            numbers[COUNTS + number] += 1
            os.kill(server, _get_relay_signal())
        elif info.si_code != _SI_KERNEL:
            # The server has already received a signal of the kernel, because a terminal sends it to the whole group.
            os.kill(server, number)


def _run_reaper(numbers: memoryview[int], front: int, server: int) -> NoReturn:
    """Wait until the server has ended or the front was killed, and then end all remaining processes."""
    with contextlib.suppress(OSError):
        # The end of a reaper in the server's session would orphan the group, and its stopped members would get SIGHUP.
        os.setsid()
    _release_streams()
    status = None
    while status is None:
        # With another parent, the front was killed. The client knows only the front, so it meant to kill the server.
        if os.getppid() != front:
            os.kill(server, signal.SIGKILL)
        signal.sigwaitinfo({signal.SIGCHLD, signal.SIGTERM})
        status = _reap_children(server)
    numbers[_STATUS] = status + 1
    numbers[_SERVER] = 0
    end_descendants(GRACE)
    os._exit(0)


def supervise_worker(
    command: list[str],
    grace: float,
    stdin: int = 0,
    restrictions: Restrictions | None = None,
    cleanup: list[str] | None = None,
) -> NoReturn:
    """Run a command until it ends or the server closes standard input, and then end all its processes.

    Standard input belongs to the command. The supervisor never reads it, but polls it for its hang-up.

    Args:
        command: The program and its arguments.
        grace: Seconds between SIGTERM and SIGKILL for the remaining processes.
        stdin: The descriptor of the command's input, if that is not standard input.
        restrictions: Those of the command, if it runs in a sandbox with Landlock.
        cleanup: A command to run after all, unless the first one has ended with exit code 0.
    """
    # Event loops may leave more descriptors open than the standard streams. Among them may be the write end of the
    # worker's output, which would then never end.
    _close_descriptors(besides=stdin)
    wakeup, write_end = os.pipe()
    for end in (wakeup, write_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write_end)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        # The poll receives these signals through the wake-up descriptor, so their handlers do nothing.
        signal.signal(number, lambda *_: None)
    _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if not worker and stdin:
        os.dup2(stdin, 0)
    if stdin:
        os.close(stdin)
    if not worker:
        with contextlib.suppress(OSError):
            _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if restrictions is not None:
                _restrict_process(restrictions)
            os.execvp(command[0], command)  # noqa: S606 - the server's own command
        os._exit(127)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    status = _watch_worker(worker, wakeup)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    has_ended = end_descendants(grace)
    if restrictions is not None:
        restrictions.remove_folder()
    if cleanup and status:
        _run_cleanup(cleanup)
    if not has_ended:
        # This ends the supervisor, too: it is a member of the only group that it knows.
        os.killpg(0, signal.SIGKILL)
    _end_like(status)


def _restrict_process(restrictions: Restrictions) -> None:
    """Apply the restrictions to this process. If that fails, print the reason and end the process."""
    try:
        restrictions.apply()
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(127)


def _run_cleanup(command: list[str]) -> None:
    """Run a command, and wait for it for SWEEP_TIMEOUT seconds at most.

    It leaves the process group, so that it runs to its end even if the server kills the group.
    """
    cleaner = os.fork()
    if not cleaner:
        with contextlib.suppress(OSError):
            os.setsid()
            _release_streams()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            os.execvp(command[0], command)  # noqa: S606 - the server's own command
        os._exit(127)
    deadline = time.monotonic() + SWEEP_TIMEOUT
    while time.monotonic() < deadline and not os.waitpid(cleaner, os.WNOHANG)[0]:
        time.sleep(0.01)


def _watch_worker(worker: int, wakeup: int) -> int:
    """Wait for the worker's exit, and return its status.

    Return SIGKILL when the server orders its end by SIGTERM, and WORKER_GRACE seconds after standard input was closed.
    """
    import select

    stdin = 0
    poll = select.poll()
    poll.register(stdin, 0)
    poll.register(wakeup, select.POLLIN)
    deadline: float | None = None
    while deadline is None or time.monotonic() < deadline:
        timeout = None if deadline is None else max(0, (deadline - time.monotonic()) * 1000)
        for descriptor, _ in poll.poll(timeout):
            if descriptor == stdin:
                poll.unregister(stdin)
                deadline = time.monotonic() + WORKER_GRACE
            elif signal.SIGTERM in os.read(wakeup, 512):
                return signal.SIGKILL
        status = _reap_children(worker)
        if status is not None:
            return status
    return signal.SIGKILL


def end_descendants(grace: float, timeout: float = SWEEP_TIMEOUT) -> bool:
    """End all processes below this one: SIGTERM, SIGKILL after `grace` seconds, again until none is left.

    SIGCHLD has to be blocked. Returns whether none is left. On systems other than Linux, the processes are unknown, so
    it returns False.
    """
    start = time.monotonic()
    signalled = set[int]()
    while _has_children():
        elapsed = time.monotonic() - start
        if elapsed > timeout or not _IS_LINUX:
            return False
        for pid in list_descendants(os.getpid()):
            with contextlib.suppress(OSError):
                if elapsed >= grace:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in signalled:
                    signalled.add(pid)
                    os.kill(pid, signal.SIGTERM)
                    # A stopped process does not handle SIGTERM.
                    os.kill(pid, signal.SIGCONT)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
    return _IS_LINUX


def list_descendants(root: int) -> list[int]:
    """Return the ids of all running processes below `root`, parents before their children (Linux)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, parent = stat.read().rpartition(b")")[2].split()[:2]
                if state not in b"ZX":
                    children.setdefault(int(parent), []).append(int(name))
    descendants = [*children.get(root, ())]
    # The list grows while it is read.
    for pid in descendants:
        descendants += children.get(pid, ())
    return descendants


def _has_children() -> bool:
    """Reap the children that have ended, and return whether others are left."""
    try:
        # All are reaped in one go, because a fork bomb leaves thousands.
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _reap_children(child: int) -> int | None:
    """Reap all children that have ended, and return the exit status of `child` if it is among them."""
    child_status = None
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid:
            if pid == child:
                child_status = status
            pid, status = os.waitpid(-1, os.WNOHANG)
    return child_status


def _end_like(status: int) -> NoReturn:
    """End this process by the exit code or the signal in a status of waitpid(2)."""
    if os.WIFSIGNALED(status):
        import resource

        number = os.WTERMSIG(status)
        # The process with the error has written its core file. This one writes none.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        # The first process of a container is not ended by its own signals.
        os._exit(128 + number)
    os._exit(os.waitstatus_to_exitcode(status))


def _release_streams() -> None:
    """Close all pipes, because the client waits until no process holds them."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    _close_descriptors()


def _close_descriptors(besides: int = 0) -> None:
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and int(name) != besides:
                os.close(int(name))


def _never_return(run: Callable[[], NoReturn]) -> NoReturn:
    """Run a function that ends the process. After an error, end it too: it would go on as a second server."""
    try:
        run()
    finally:
        os._exit(70)


def _get_relay_signal() -> int:
    """Return the signal of the front in place of the counted ones."""
    return int(signal.SIGRTMIN) + 5


def _to_numbers(names: Sequence[str]) -> list[signal.Signals]:
    return [signal.Signals[name] for name in names]


def _call_prctl(option: int, value: int) -> bool:
    """Call prctl(2), and return whether it exists and has succeeded."""
    if sys.platform != "linux":
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        return not ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return False
