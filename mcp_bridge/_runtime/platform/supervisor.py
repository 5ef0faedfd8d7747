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
    from collections.abc import Callable
    from typing import NoReturn

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for the remaining processes of the server."""
SWEEP_TIMEOUT = 10.0
"""Seconds until the supervisor ignores a process that survives SIGKILL, because it waits for a dead disk."""
WORKER_GRACE = 2.0
"""Seconds for a worker to end on its own after the server has ended."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2): a signal at the death of the parent, and adopting orphaned descendants."""

assert sys.platform != "win32"


def supervise_worker(
    command: list[str],
    grace: float,
    stdin: int = 0,
    prepare: Callable[[], None] | None = None,
    clean_up: Callable[[], None] | None = None,
    cleanup: list[str] | None = None,
) -> NoReturn:
    """Run a command until it ends or the server closes standard input, and then end all its processes.

    Standard input belongs to the command. The supervisor never reads it, but polls it for its hang-up.

    Args:
        command: The program and its arguments.
        grace: Seconds between SIGTERM and SIGKILL for the remaining processes.
        stdin: The descriptor of the command's input, if that is not standard input.
        prepare: Prepares the sandbox of the command, in the process that becomes the command.
        clean_up: Removes what this sandbox leaves, after all processes have ended.
        cleanup: A command to run at the end, unless the first one has ended with exit code 0.
    """
    # Event loops may leave more descriptors open than the standard streams. Among them may be the write end of the
    # worker's output, which would then never end.
    close_descriptors(besides=stdin)
    wakeup, write_end = os.pipe()
    for end in (wakeup, write_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write_end)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        # The poll receives these signals through the wake-up descriptor, so their handlers do nothing.
        signal.signal(number, lambda *_: None)
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if not worker and stdin:
        os.dup2(stdin, 0)
    if stdin:
        os.close(stdin)
    if not worker:
        with contextlib.suppress(OSError):
            call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if prepare is not None:
                _prepare_process(prepare)
            os.execvp(command[0], command)  # noqa: S606 - the server's own command
        os._exit(127)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    status = _watch_worker(worker, wakeup)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    has_ended = end_descendants(grace) or _kill_group_after_exit()
    if clean_up is not None:
        _run_apart(clean_up)
    if cleanup and status:
        _run_apart(lambda: os.execvp(cleanup[0], cleanup))  # noqa: S606 - the server's own command
    if not has_ended:
        # This ends the supervisor, too: it is a member of the only group that it knows.
        os.killpg(0, signal.SIGKILL)
    end_like(status)


def _prepare_process(prepare: Callable[[], None]) -> None:
    """Prepare the sandbox of this process. If that fails, print the reason and end the process."""
    try:
        prepare()
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(127)


def _run_apart(action: Callable[[], object]) -> None:
    """Run an action in another process, and wait for it for SWEEP_TIMEOUT seconds at most.

    The process leaves the process group, so that it runs to its end even if the server kills the group.
    """
    cleaner = os.fork()
    if not cleaner:
        with contextlib.suppress(OSError):
            os.setsid()
            release_streams()
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            action()
        os._exit(127)
    deadline = time.monotonic() + SWEEP_TIMEOUT
    while time.monotonic() < deadline and not os.waitpid(cleaner, os.WNOHANG)[0]:
        time.sleep(0.01)


def _kill_group_after_exit() -> bool:
    """Fork a process that kills the process group of this one as soon as this one has ended.

    A process that kills its group dies with it, and then the server would not learn how the command has ended. Returns
    False if the system can create no more processes.
    """
    group = os.getpgrp()
    end, held_end = os.pipe()
    try:
        if os.fork():
            return True
    except OSError:
        return False
    os.setpgid(0, 0)
    os.close(held_end)
    # Nothing is ever written, so this returns when the supervisor has ended.
    os.read(end, 1)
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    os._exit(0)


def _watch_worker(worker: int, wakeup: int) -> int:
    """Wait for the worker's exit, and return its status.

    Return SIGKILL when the server orders its end by SIGTERM, and WORKER_GRACE seconds after standard input was closed.
    On macOS, poll does not report that standard input was closed, so the parent is checked each second.
    """
    import select

    stdin = 0
    poll = select.poll()
    poll.register(stdin, 0)
    poll.register(wakeup, select.POLLIN)
    parent = os.getppid()
    deadline: float | None = None
    while deadline is None or time.monotonic() < deadline:
        timeout = None if deadline is None else max(0, (deadline - time.monotonic()) * 1000)
        if sys.platform == "darwin":
            timeout = 1000 if timeout is None else min(timeout, 1000)
            if deadline is None and os.getppid() != parent:
                poll.unregister(stdin)
                deadline = time.monotonic() + WORKER_GRACE
        for descriptor, _ in poll.poll(timeout):
            if descriptor == stdin:
                poll.unregister(stdin)
                deadline = time.monotonic() + WORKER_GRACE
            elif signal.SIGTERM in os.read(wakeup, 512):
                return signal.SIGKILL
        status = reap_children(worker)
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
        if elapsed > timeout:
            return False
        if sys.platform == "linux":
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
        else:
            return False
    return sys.platform == "linux"


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


def reap_children(child: int) -> int | None:
    """Reap all children that have ended, and return the exit status of `child` if it is among them."""
    child_status = None
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid:
            if pid == child:
                child_status = status
            pid, status = os.waitpid(-1, os.WNOHANG)
    return child_status


def end_like(status: int) -> NoReturn:
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


def release_streams() -> None:
    """Close all pipes, because the client waits until no process holds them."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    close_descriptors()


def close_descriptors(besides: int = 0) -> None:
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and int(name) != besides:
                os.close(int(name))


def call_prctl(option: int, value: int) -> bool:
    """Call prctl(2), and return whether it exists and has succeeded."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            return not ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return False
