"""Makes this interpreter look like macOS."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.kits.platforms.environment import RECORDS_FOLDER
from tests.kits.platforms.hidden_folders import hide_proc
from tests.kits.platforms.interpreter import SimulatedInterpreter

_MISSING_MODULES = frozenset({"ossaudiodev", "spwd"})
_WORDS = """
copy_file_range EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE eventfd eventfd_read eventfd_write fdatasync getrandom
getresgid getresuid getxattr GRND_NONBLOCK GRND_RANDOM listxattr memfd_create O_DIRECT O_LARGEFILE O_NOATIME O_PATH
O_RSYNC O_TMPFILE P_PIDFD pidfd_open pipe2 posix_fadvise posix_fallocate removexattr SCHED_BATCH sched_getaffinity
sched_getparam sched_getscheduler SCHED_IDLE sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler
setns setresgid setresuid setxattr splice timerfd_create unshare XATTR_CREATE XATTR_REPLACE XATTR_SIZE_MAX
"""
_MISSING_IN_OS = frozenset(_WORDS.split())
_WORDS = """
pidfd_send_signal SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT sigtimedwait sigwaitinfo
"""
_MISSING_IN_SIGNAL = frozenset(_WORDS.split())
_WORDS = """
AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_VSOCK MSG_CMSG_CLOEXEC SO_BINDTODEVICE SO_DOMAIN SO_MARK SO_PASSCRED SO_PEERCRED
SO_PEERSEC SO_PRIORITY SO_PROTOCOL SOCK_CLOEXEC SOCK_NONBLOCK TCP_CORK TCP_DEFER_ACCEPT TCP_QUICKACK TCP_USER_TIMEOUT
"""
_MISSING_IN_SOCKET = frozenset(_WORDS.split())
LOCAL_PEERCRED, _SOL_LOCAL = 1, 0
"""The option for the user of the other end, and its level (sys/un.h)."""
MAX_SOCKET_PATH = 104
"""The size of `sun_path` in bytes, with the zero at its end."""
_RealSocket = socket.socket


def install() -> None:
    """Change the interpreter. Modules that were imported before see no difference in their names."""
    hide_proc()
    interpreter = SimulatedInterpreter(
        "darwin", ("Darwin", "23.6.0", "Darwin Kernel", "arm64"), _MISSING_MODULES, _PATCHES
    )
    uname = os.uname_result(("Darwin", os.uname().nodename, "23.6.0", "Darwin Kernel", "arm64"))
    interpreter.replace(os, _MISSING_IN_OS, uname=lambda: uname)
    interpreter.replace(signal, _MISSING_IN_SIGNAL)
    interpreter.replace(socket, _MISSING_IN_SOCKET, LOCAL_PEERCRED=LOCAL_PEERCRED, socket=MacSocket)
    interpreter.replace(select, frozenset({"epoll"}), poll=MacPoll)
    # `accept` and asyncio make sockets by this name.
    socket.socket = MacSocket  # type: ignore[misc]
    resource.setrlimit = _set_limit
    ctypes.CDLL.__getattr__ = _find_function  # type: ignore[method-assign]
    interpreter.activate()


_make_real_poll = select.poll


class MacPoll:
    """A poll object that reports nothing about a descriptor for which it waits for no event."""

    def __init__(self) -> None:
        self._poll = _make_real_poll()
        self._idle = set[int]()

    def register(self, descriptor: int, events: int = select.POLLIN | select.POLLPRI | select.POLLOUT) -> None:
        """Wait for events of a descriptor."""
        if events:
            self._poll.register(descriptor, events)
        else:
            self._idle.add(descriptor)

    def unregister(self, descriptor: int) -> None:
        """Forget a descriptor."""
        if descriptor in self._idle:
            self._idle.remove(descriptor)
        else:
            self._poll.unregister(descriptor)

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Return the descriptors with their events, after at most `timeout` milliseconds."""
        return self._poll.poll(timeout)


class MacSocket(_RealSocket):
    """A socket with the paths and the credentials of macOS."""

    def bind(self, address: Any, /) -> None:
        """Bind to an address. Raises OSError for a long path."""
        self._check_path(address)
        super().bind(address)

    def connect(self, address: Any, /) -> None:
        """Connect to an address. Raises OSError for a long path."""
        self._check_path(address)
        super().connect(address)

    def getsockopt(self, level: int, name: int, *size: int) -> Any:
        """Return an option. LOCAL_PEERCRED is a `struct xucred`: version, user, number of groups, 16 groups."""
        if self.family != socket.AF_UNIX or (level, name) != (_SOL_LOCAL, LOCAL_PEERCRED):
            return super().getsockopt(level, name, *size)
        credentials = super().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, user, group = struct.unpack("3i", credentials)
        return struct.pack("IIhxx16I", 0, user, 1, group, *[0] * 15)[: size[0]]

    def _check_path(self, address: Any) -> None:
        if self.family == socket.AF_UNIX and len(os.fsencode(address)) >= MAX_SOCKET_PATH:
            raise OSError("AF_UNIX path too long")


_set_real_limit = resource.setrlimit


def _set_limit(kind: int, limits: tuple[int, int], /) -> None:
    """Set a limit. The kernel rejects a limit of the address space."""
    if kind == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    _set_real_limit(kind, limits)


_find_real_function = ctypes.CDLL.__getattr__


def _find_function(library: ctypes.CDLL, name: str) -> Any:
    """Return a function of a library, but none that only Linux has."""
    if name in {"prctl", "pidfd_open", "memfd_create", "unshare", "syscall"}:
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
    return _find_real_function(library, name)


def _patch_psutil(module: ModuleType) -> None:
    """Let psutil read a folder that is hidden."""
    module.PROCFS_PATH = "/dev/../proc"  # type: ignore[attr-defined]


def _patch_webbrowser(module: ModuleType) -> None:
    """Record the pages that a browser would open."""

    class Browser(module.BaseBrowser):  # type: ignore[name-defined, misc]
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            with Path(RECORDS_FOLDER, "opened").open("a", encoding="utf-8") as file:
                file.write(f"{url}\n")
            return True

    module.MacOSXOSAScript = Browser  # type: ignore[attr-defined]


_PATCHES = {"psutil": _patch_psutil, "webbrowser": _patch_webbrowser}
