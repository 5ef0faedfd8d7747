"""The functions of `kernel32` on another system. Jobs are sets of processes; processes, sockets and files are real."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import socket
import struct
import tempfile
import threading
from types import ModuleType

from tests.kits.platforms.windows_names import SIGNALS

USER = "S-1-5-21-1-2-3-1001"
REPLACED = (
    "create_job", "assign_to_job", "terminate_job", "send_break", "close_handle", "has_console", "set_standard_handle",
    "share_socket", "receive_socket", "read_access_rights", "read_user_sid",
)  # fmt: skip
"""The functions that `patch_kernel32` replaces. The others use `msvcrt`, which is simulated, too."""
jobs: dict[int, set[int]] = {}
_handles = itertools.count(4, 4)


def create_job() -> int:
    """Create an empty job."""
    job = next(_handles)
    jobs[job] = set()
    return job


def assign_to_job(job: int, pid: int) -> None:
    """Add a process."""
    jobs[job].add(pid)


def terminate_job(job: int) -> None:
    """Kill the processes and their descendants."""
    import psutil

    for pid in jobs[job] - {os.getpid()}:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for member in (*process.children(recursive=True), process):
                member.kill()
        # Descendants of a process that has ended are still in the group that `Popen` has made for it.
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def send_break(group: int) -> None:
    """Send the event to the first process of a group. Raises OSError if there is no such process."""
    os.kill(group, SIGNALS["SIGBREAK"])


def close_handle(handle: int) -> None:
    """Kill the processes of a job."""
    terminate_job(handle)
    del jobs[handle]


def has_console() -> bool:
    """Return True: the children share the console."""
    return True


def set_standard_handle(descriptor: int) -> None:
    """Do nothing: a descriptor is all there is."""


def lock_byte(descriptor: int, position: int) -> bool:
    """Lock a byte against other processes (fcntl(2))."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, position)
    except OSError:
        return False
    return True


def unlock_byte(descriptor: int, position: int) -> None:
    """Unlock a byte."""
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, position)


def share_socket(shared: socket.socket, pid: int) -> bytes:
    """Return the path of a Unix socket that passes the socket on to the process with this id, and to no other one."""
    path = f"{tempfile.mkdtemp()}/share"
    passing, copy = socket.socket(socket.AF_UNIX), shared.dup()
    passing.bind(path)
    passing.listen()

    def pass_on() -> None:
        with passing, copy:
            receiver, _ = passing.accept()
            with receiver:
                credentials = receiver.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if struct.unpack("3i", credentials)[0] == pid:
                    socket.send_fds(receiver, [b"x"], [copy.fileno()])

    threading.Thread(target=pass_on).start()
    return path.encode()


def receive_socket(data: bytes) -> socket.socket:
    """Receive a shared socket. Raises OSError if it was shared with another process."""
    with socket.socket(socket.AF_UNIX) as receiver:
        receiver.connect(data.decode())
        _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
    if not descriptors:
        raise OSError(10022, "[WinError 10022] An invalid argument was supplied")
    return socket.socket(fileno=descriptors[0])


def read_key() -> bytes:
    """Return nothing: no key is typed."""
    return b""


def read_access_rights(path: str) -> str:
    """Return the rights of a folder in the profile of the user."""
    return f"O:{USER}D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;FA;;;{USER})"


def read_user_sid() -> str:
    """Return the user."""
    return USER


def patch_kernel32(module: ModuleType) -> None:
    """Replace the functions of `mcp_bridge._runtime.platform.kernel32` that call Windows itself."""
    for name in REPLACED:
        setattr(module, name, globals()[name])
