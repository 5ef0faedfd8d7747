"""The rules of Windows for child processes."""

from __future__ import annotations

import errno
import inspect
import os
import shlex
import signal
import subprocess
import sys
from typing import Any

from tests.kits.platforms.windows_files import ENCODING, make_error
from tests.kits.platforms.windows_names import SIGNALS

FLAGS = {
    "ABOVE_NORMAL_PRIORITY_CLASS": 0x8000, "BELOW_NORMAL_PRIORITY_CLASS": 0x4000,
    "CREATE_BREAKAWAY_FROM_JOB": 0x01000000, "CREATE_DEFAULT_ERROR_MODE": 0x04000000, "CREATE_NEW_CONSOLE": 0x10,
    "CREATE_NEW_PROCESS_GROUP": 0x200, "CREATE_NO_WINDOW": 0x08000000, "DETACHED_PROCESS": 0x8,
    "HIGH_PRIORITY_CLASS": 0x80, "IDLE_PRIORITY_CLASS": 0x40, "NORMAL_PRIORITY_CLASS": 0x20,
    "REALTIME_PRIORITY_CLASS": 0x100, "STARTF_USESHOWWINDOW": 1, "STARTF_USESTDHANDLES": 0x100, "STD_ERROR_HANDLE": -12,
    "STD_INPUT_HANDLE": -10, "STD_OUTPUT_HANDLE": -11, "SW_HIDE": 0,
}  # fmt: skip
"""The constants of `subprocess`."""
_OTHER_GROUP = FLAGS["CREATE_NEW_PROCESS_GROUP"] | FLAGS["DETACHED_PROCESS"] | FLAGS["CREATE_NEW_CONSOLE"]
_CREATE_SUSPENDED = 0x4
KILLED = 1
"""The exit code of a process that another one has ended."""
INTERRUPTED = 0xC000013A
"""The exit code of a process that Ctrl-C has ended."""
CRASHED = 0xC0000005
"""The exit code of a process with an access violation."""
_RealPopen = subprocess.Popen
_SIGNATURE = inspect.signature(_RealPopen)


class StartupInfo:
    """The options of CreateProcess. They have no effect."""

    def __init__(self, **options: Any) -> None:
        self.dwFlags = self.wShowWindow = 0
        self.hStdInput = self.hStdOutput = self.hStdError = None
        self.lpAttributeList: dict[str, Any] = {"handle_list": []}
        for name, value in options.items():
            setattr(self, name, value)


def install() -> None:
    """Replace the class of processes in `subprocess`."""
    for name, value in FLAGS.items():
        setattr(subprocess, name, value)
    subprocess.STARTUPINFO = StartupInfo  # type: ignore[attr-defined]
    subprocess.Popen = Popen  # type: ignore[misc]


def to_exit_code(code: int) -> int:
    """Return the exit code on Windows, where no process ends by a signal."""
    if code >= 0:
        return code
    return {-signal.SIGINT: INTERRUPTED, -signal.SIGSEGV: CRASHED}.get(code, KILLED)


class Popen(_RealPopen):  # type: ignore[type-arg]
    """A child process."""

    def __init__(self, *args: Any, **options: Any) -> None:
        bound = _SIGNATURE.bind(*args, **options).arguments
        if bound.get("preexec_fn") is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        if bound.pop("pass_fds", ()):
            raise ValueError("pass_fds not supported on Windows.")
        for name in ("user", "group", "extra_groups"):
            if bound.pop(name, None) is not None:
                raise ValueError(f"The '{name}' parameter is not supported on the current platform")
        # The standard library ignores these.
        for name in ("start_new_session", "process_group", "restore_signals", "umask", "pipesize"):
            bound.pop(name, None)
        flags = bound.pop("creationflags", 0)
        bound.pop("startupinfo", None)
        bound["start_new_session"] = bool(flags & _OTHER_GROUP)
        is_text = bound.get("text") or bound.get("universal_newlines") or bound.get("errors")
        if is_text and bound.get("encoding") is None:
            bound["encoding"] = ENCODING
        if not bound.get("shell"):
            command = bound["args"]
            words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
            bound["executable"] = find_program(os.fspath(bound.get("executable") or words[0]))
            bound["args"] = words
        super().__init__(**bound)
        if flags & _CREATE_SUSPENDED:
            # psutil resumes it.
            os.kill(self.pid, signal.SIGSTOP)

    def _handle_exitstatus(self, *args: Any, **options: Any) -> None:
        super()._handle_exitstatus(*args, **options)  # type: ignore[misc]
        if self.returncode is not None:
            self.returncode = to_exit_code(self.returncode)

    def send_signal(self, sig: int) -> None:
        """Send an event of the console, or end the process."""
        self.poll()
        if self.returncode is not None:
            return
        if sig not in (SIGNALS["SIGTERM"], SIGNALS["CTRL_C_EVENT"], SIGNALS["CTRL_BREAK_EVENT"]):
            raise ValueError(f"Unsupported signal: {sig}")
        kill(self.pid, sig)

    def terminate(self) -> None:
        """End the process without notice."""
        super().send_signal(signal.SIGKILL)

    kill = terminate


def kill(pid: int, number: int) -> None:
    """Send an event of the console to a process, or end it: Windows has no other signals between processes."""
    events = {SIGNALS["CTRL_C_EVENT"]: signal.SIGINT, SIGNALS["CTRL_BREAK_EVENT"]: SIGNALS["SIGBREAK"]}
    os.kill(pid, events.get(number, signal.SIGKILL))


def find_program(name: str) -> str:
    """Return the program that CreateProcess starts for a name: it appends only `.exe`, and runs no script."""
    path = name
    if "/" not in name:
        if not os.path.splitext(name)[1]:
            name += ".exe"
        folders = (os.path.dirname(sys.executable), os.getcwd(), *os.environ.get("PATH", "").split(os.pathsep))
        path = next((file for file in (os.path.join(folder, name) for folder in folders) if os.path.isfile(file)), "")
    if not os.path.isfile(path):
        raise make_error(FileNotFoundError, errno.ENOENT, 2, "The system cannot find the file specified")
    if os.path.splitext(path)[1].lower() not in (".exe", ".com", ".bat", ".cmd"):
        raise make_error(OSError, errno.ENOEXEC, 193, "%1 is not a valid Win32 application")
    return os.path.abspath(path)
