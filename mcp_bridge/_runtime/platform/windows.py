"""Windows. `posix` has the same names, and the docstrings of what both do.

Windows has no signals between processes and no process groups to end. Instead:

- A child is started suspended, put into a job and resumed, so that all its descendants belong to the job, too. Closing
  the job ends them. The system closes it as well when this process ends, even after a crash.
- The server itself is in a job, so the processes of its tools do not outlive it.
- CTRL_BREAK_EVENT asks a child to end. Children get no Ctrl-C of the console, because they have a group of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp_bridge._runtime.platform import kernel32
from mcp_bridge._runtime.platform.guard_option import is_guard_wanted
from mcp_bridge._runtime.platform.windows_access import create_private_folder
from mcp_bridge._runtime.platform.windows_programs import check_command, is_path, locate_program

if TYPE_CHECKING:
    import socket
    import subprocess

    from mcp_bridge._runtime.platform.server_supervisor import Supervisor

__all__ = ["check_command", "create_private_folder", "is_path", "locate_program"]

NAME: Literal["darwin", "linux", "win32"] = "win32"
HOME_VARIABLE = "USERPROFILE"
USUAL_VARIABLES = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
)
GRACE = 1.0
WORKER_GRACE = 2.0
# O_BINARY exists on Windows only.
OPEN_BINARY, OPEN_NOW = 0x8000, 0
HAS_SUPERVISORS = False
HAS_SIGNALS = False
POLLS_PIPES = False
CAN_PASS_SOCKETS = False
RESTART_SIGNAL: int | None = None
HAS_POSIX_SHELL = False
EXPANDED_CHARACTERS = frozenset("*?[~$%")
ENCODING: str | None = None if "PYTHONIOENCODING" in os.environ else "utf-8"
DESCRIPTOR_LIMIT = 1024
LOCK_INTERVAL = 0.02
"""Seconds between two attempts to get a lock."""
# The names of these constants exist on Windows only.
CREATE_SUSPENDED = 0x00000004
CREATE_NEW_PROCESS_GROUP = 0x00000200
CREATE_BREAKAWAY_FROM_JOB = 0x01000000
CREATE_NO_WINDOW = 0x08000000
_LOCK_POSITION = 1 << 30
"""The byte of a file that its lock covers. It lies beyond the content, because others cannot read locked bytes."""
_KEY_INTERVAL = 0.05
"""Seconds between two checks for typed keys."""


def start_supervisor(arguments: Sequence[str]) -> Supervisor | None:
    """Put this process into a job, if it is a server, and return None."""
    if is_guard_wanted(arguments):
        # In a container, or without permission for a job inside that of a client, the server runs without a job.
        with contextlib.suppress(OSError):
            # The handle stays open until the end of this process.
            kernel32.assign_to_job(kernel32.create_job(), os.getpid())
    return None


def wrap_command(
    command: Sequence[str], *, grace: float = 0.0, stdin: int = 0, cleanup: Sequence[str] = ()
) -> list[str]:
    """Return the command itself. Raises ValueError if a batch file could misinterpret its arguments."""
    check_command(command)
    return list(command)


def make_child_options(*, descriptors: Sequence[int] = ()) -> dict[str, Any]:
    """Return the options for a suspended process. ProcessGroup resumes it. Windows inherits no `descriptors`."""
    flags = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP
    # A desktop program has no console for its children, so each of them would open a window.
    if not kernel32.has_console():
        flags |= CREATE_NO_WINDOW
    return {"creationflags": flags}


def start_daemon(command: Sequence[str], listening: socket.socket, **options: Any) -> subprocess.Popen[bytes]:
    import subprocess

    words = [*command, "-"]
    if words[0] == sys.executable:
        # In a virtual environment, this program starts the interpreter as another process, which would not get the
        # socket. Python reads and removes this variable at its start (bpo-35797).
        words[0] = getattr(sys, "_base_executable", sys.executable)
        options["env"] = {**os.environ, "__PYVENV_LAUNCHER__": sys.executable}
    # Without a console of its own, the daemon could not ask its children to end.
    flags = CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP
    process: subprocess.Popen[bytes]
    # A client may end the processes of its job, so the daemon leaves it, unless the job does not allow that.
    try:
        leaving = flags | CREATE_BREAKAWAY_FROM_JOB
        process = subprocess.Popen(words, stdin=subprocess.PIPE, creationflags=leaving, **options)  # noqa: S603
    except PermissionError:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, creationflags=flags, **options)  # noqa: S603
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(kernel32.share_socket(listening, process.pid))
    return process


def receive_listening_socket(word: str) -> socket.socket:
    return kernel32.receive_socket(sys.stdin.buffer.read())


class ProcessJob:
    """The job of a suspended child, which runs once it is in the job. If that fails, kills it and raises OSError."""

    def __init__(self, pid: int) -> None:
        import psutil

        self._pid = pid
        self._job: int | None = None
        try:
            self._job = kernel32.create_job()
            kernel32.assign_to_job(self._job, pid)
            psutil.Process(pid).resume()
        except BaseException as error:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
            self.close()
            if isinstance(error, psutil.Error):
                raise OSError(f"the process {pid} cannot be resumed: {error}") from error
            raise

    def terminate(self) -> None:
        # Without a common console, the event does not arrive. The caller kills the job after the grace period.
        with contextlib.suppress(OSError):
            kernel32.send_break(self._pid)

    def resume(self) -> None:
        """Do nothing: no signal can stop a process."""

    def kill(self) -> None:
        if self._job is not None:
            with contextlib.suppress(OSError):
                kernel32.terminate_job(self._job)

    def close(self) -> None:
        if self._job is not None:
            kernel32.close_handle(self._job)
            self._job = None


ProcessGroup = ProcessJob


def list_shutdown_signals() -> list[int]:
    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    # Closing the console and logging off arrive as SIGBREAK, too.
    if hasattr(signal, "SIGBREAK"):
        numbers.append(signal.SIGBREAK)
    return numbers


@contextlib.contextmanager
def lock_descriptor(descriptor: int, *, wait: bool = True) -> Iterator[bool]:
    while not kernel32.lock_byte(descriptor, _LOCK_POSITION):
        if not wait:
            yield False
            return
        time.sleep(LOCK_INTERVAL)
    try:
        yield True
    finally:
        kernel32.unlock_byte(descriptor, _LOCK_POSITION)


@contextlib.contextmanager
def lock_folder(folder: Path, lock_file: Path) -> Iterator[None]:
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with lock_descriptor(descriptor):
            yield
    finally:
        os.close(descriptor)


def find_runtime_folder() -> Path | None:
    """Return None: the folder for the state of a user is private."""
    return None


def raise_descriptor_limit() -> None:
    """Do nothing: the number of sockets has no limit."""


def read_descriptor_limit() -> int:
    """Return a number of connections that no process exceeds without reason."""
    return DESCRIPTOR_LIMIT


def limit_resources(limits: Mapping[str, int], *, is_final: bool = True) -> None:
    """Do nothing: Windows has no resource limits for running processes."""


def ignore_file_size_signal() -> None:
    """Do nothing: there is no such signal."""


def copy_owner(source: os.stat_result, target: Path) -> None:
    """Do nothing: a new file gets the owner and the access rights of its folder."""


def redirect_descriptor(source: int, target: int) -> None:
    os.dup2(source, target, inheritable=True)
    # A descriptor of a program without a console may have no handle.
    with contextlib.suppress(OSError):
        kernel32.set_standard_handle(target)


def may_block(descriptor: int) -> bool:
    """Return False, because pipes cannot be polled here, and so nothing can write to them without waiting."""
    return False


def has_terminal() -> bool:
    return False


def discard_input(terminal: int) -> None:
    while kernel32.read_key():
        pass


@contextlib.contextmanager
def watch_keys(receive: Callable[[bytes], None]) -> Iterator[None]:
    import asyncio

    loop = asyncio.get_running_loop()

    timer: asyncio.Handle

    def read_keys() -> None:
        nonlocal timer
        while key := kernel32.read_key():
            receive(key)
        timer = loop.call_later(_KEY_INTERVAL, read_keys)

    timer = loop.call_soon(read_keys)
    try:
        yield
    finally:
        timer.cancel()


def has_browser(environ: Mapping[str, str]) -> bool:
    """Return False: a browser would belong to the job of the server, and end with it."""
    return False


def convert_uri_path(path: str) -> str:
    r"""Return `C:\notes` for `/C:/notes`. Clients also write `/c%3A/notes` (RFC 8089, appendix E).

    Raises ValueError for another host, which would get the user's credentials, for a device, and without a drive.
    """
    from urllib.parse import unquote

    text = unquote(path).replace("/", "\\").removeprefix("\\")
    if len(text) >= 2 and text[0].isascii() and text[0].isalpha() and text[1] in ":|":
        return f"{text[0]}:{text[2:] or chr(92)}"
    raise ValueError(f"{path!r} is not a path on a drive of this machine")
