"""Linux and macOS. `windows` has the same names."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys

assert sys.platform != "win32"

from mcp_bridge._runtime.platform import supervisor_script
from mcp_bridge._runtime.platform.guard_option import is_guard_wanted
from mcp_bridge._runtime.platform.posix_limits import (
    ignore_file_size_signal,
    limit_resources,
    raise_descriptor_limit,
    read_descriptor_limit,
)
from mcp_bridge._runtime.platform.supervisor import GRACE, WORKER_GRACE

# The supervisor of a server is a fork of a process with this module, so it imports little.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal

    from mcp_bridge._runtime.platform.server_supervisor import Supervisor


__all__ = [
    "GRACE",
    "WORKER_GRACE",
    "ignore_file_size_signal",
    "limit_resources",
    "raise_descriptor_limit",
    "read_descriptor_limit",
]

NAME: Literal["darwin", "linux", "win32"] = "darwin" if sys.platform == "darwin" else "linux"
"""The name of the system in the table of desktop clients."""
HOME_VARIABLE = "HOME"
"""The variable with the path of the user's home folder."""
USUAL_VARIABLES = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "TMPDIR", "TZ")
"""The variables that child processes need, and that contain no secrets."""
OPEN_BINARY, OPEN_NOW = 0, os.O_NONBLOCK
"""Flags of os.open: leave line ends unchanged, and wait for no other end of a pipe."""
HAS_SUPERVISORS = True
"""Whether the command of `wrap_command` reads its lifeline from standard input."""
HAS_SIGNALS = True
"""Whether signals reach other processes. Elsewhere, `os.kill` with SIGTERM ends them at once."""
POLLS_PIPES = True
"""Whether pipes can be polled, so that reading and writing them needs no threads."""
CAN_PASS_SOCKETS = True
"""Whether processes can pass connections to each other."""
RESTART_SIGNAL: int | None = signal.SIGHUP
"""The signal that asks a server to replace its processes, unless its terminal was closed."""
HAS_POSIX_SHELL = True
"""Whether command lines are written for a POSIX shell."""
EXPANDED_CHARACTERS = frozenset[str]()
"""The characters of words that the command line expands, because the shell does not."""
ENCODING: str | None = None
"""The encoding of the standard streams as text, or None for that of the environment."""
RUNTIME_FOLDER = "/run/user"
"""Where Linux has a folder for the sockets of each user. XDG_RUNTIME_DIR is not used, because clients start servers
without it."""
_BROWSER_VARIABLES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def start_supervisor(arguments: Sequence[str]) -> Supervisor | None:
    """Start the guard that ends the processes a server leaves behind, if the command line asks for it.

    Return the supervisor in the server, if there is one (Linux). The calling process then does not return.
    """
    if sys.platform == "linux" and is_guard_wanted(arguments):
        from mcp_bridge._runtime.platform import server_supervisor

        return server_supervisor.start_supervisor()
    return None


def wrap_command(
    command: Sequence[str], *, grace: float = 0.0, stdin: int = 0, cleanup: Sequence[str] = ()
) -> list[str]:
    """Return the command of a supervisor around `command`.

    When `command` or this process has ended, the supervisor ends the processes that `command` has started.

    `grace` are the seconds between SIGTERM and SIGKILL. `stdin` is an inherited descriptor for the input of the
    command, if that is not standard input. The supervisor notices the end of this process by the end of standard input.
    `cleanup` is a command that the supervisor runs after `command` has ended, unless its exit code was 0.
    """
    order = f"{grace:g}:{stdin}:{len(cleanup)}"
    return [sys.executable, "-I", "-S", supervisor_script.__file__, order, *cleanup, *command]


def make_child_options(*, descriptors: Sequence[int] = ()) -> dict[str, Any]:
    """Return the options of subprocess for a process with a group of its own, which inherits `descriptors`."""
    return {"start_new_session": True, "pass_fds": tuple(descriptors)}


def start_daemon(command: Sequence[str], listening: socket.socket, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one and its terminal.

    Its last argument is a word, for which `receive_listening_socket` returns the socket. `options` are those of Popen.
    """
    import subprocess

    descriptor = listening.fileno()
    return subprocess.Popen(  # noqa: S603 - the server's own command
        [*command, str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
        **options,
    )


def receive_listening_socket(word: str) -> socket.socket:
    """Return the socket that `start_daemon` has passed to this process."""
    import socket

    descriptor = int(word)
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


class ProcessGroup:
    """The processes of a child that was started with `make_child_options`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def terminate(self) -> None:
        """Ask the child to end: a supervisor then ends its command, with all processes below it."""
        self._send_signal(os.kill, signal.SIGTERM)

    def resume(self) -> None:
        """Let the child run on if it was stopped."""
        self._send_signal(os.kill, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the child and its process group."""
        self._send_signal(os.killpg, signal.SIGKILL)

    def close(self) -> None:
        """Release the group after the end of the child. On Windows, this ends the processes that are left."""

    def _send_signal(self, send: Callable[[int, int], None], number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(self._pid, number)


def list_shutdown_signals() -> list[int]:
    """Return the signals that end a server. An ignored SIGHUP is not among them, as under `nohup`."""
    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


@contextlib.contextmanager
def lock_descriptor(descriptor: int, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an open file during the block, and yield True.

    If another process holds it and `wait` is false, yield False. Raises OSError.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def lock_folder(folder: Path, lock_file: Path) -> Iterator[None]:
    """Hold the lock of a folder during the block; where folders have no locks, that of `lock_file`. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with lock_descriptor(descriptor):
            yield
    finally:
        os.close(descriptor)


def find_runtime_folder() -> Path | None:
    """Return this user's folder in RUNTIME_FOLDER, or None if there is none."""
    from pathlib import Path

    folder = Path(RUNTIME_FOLDER, str(os.getuid()))
    is_own = os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.getuid()
    return folder if is_own else None


def create_private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use. Raises PermissionError if other users can use it."""
    import stat

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"other users can use the folder {folder}. Remove it, or run chmod 700 on it")
    return folder


def copy_owner(source: os.stat_result, target: Path) -> None:
    """Give a file the owner and the group of another one, where this is permitted."""
    status = target.stat()
    if (source.st_uid, source.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(PermissionError):
            os.chown(target, source.st_uid, source.st_gid)


def redirect_descriptor(source: int, target: int) -> None:
    """Let a standard stream of this process, and of its future children, be `source`."""
    os.dup2(source, target, inheritable=True)


def may_block(descriptor: int) -> bool:
    """Whether writing may have to wait for a reader: the descriptor is a pipe or a socket."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        # The descriptor is closed.
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def has_terminal() -> bool:
    """Return whether this process was started in a terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def discard_input(terminal: int) -> None:
    """Discard what was typed, and not read yet."""
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


@contextlib.contextmanager
def watch_keys(receive: Callable[[bytes], None]) -> Iterator[None]:
    """Pass typed keys to `receive` inside the block, on asyncio. At the end of input, it receives no bytes."""
    import asyncio
    import termios
    import tty

    loop = asyncio.get_running_loop()
    terminal_mode = termios.tcgetattr(0)
    tty.setcbreak(0)
    loop.add_reader(0, lambda: receive(os.read(0, 64)))
    try:
        yield
    finally:
        loop.remove_reader(0)
        termios.tcsetattr(0, termios.TCSADRAIN, terminal_mode)


def has_browser(environ: Mapping[str, str]) -> bool:
    """Whether a browser can probably be opened."""
    return sys.platform == "darwin" or any(map(environ.get, _BROWSER_VARIABLES))


def is_path(command: str) -> bool:
    """Whether a command is the path of a program, rather than a name to be found on PATH."""
    return os.sep in command


def locate_program(command: str, search_path: str | None = None) -> str | None:
    """Return the path of a program, or None. `search_path` replaces PATH."""
    import shutil

    return shutil.which(command, path=search_path)


def check_command(command: Sequence[str]) -> None:
    """Do nothing: every program receives its arguments unchanged. On Windows, batch files do not."""


def convert_uri_path(path: str) -> str:
    """Return the local path for the path of a `file:` URI. Raises ValueError if no local file can have it."""
    from urllib.parse import unquote

    return unquote(path)
