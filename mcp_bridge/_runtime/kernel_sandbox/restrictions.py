"""Restrictions: what a process in a sandbox with Landlock can access, and how it gives up everything else.

The supervisor makes a private folder for temporary files, and forks. The child, which becomes the command, gives up its
capabilities, and applies the rules of Landlock and the filter of system calls to itself. The supervisor is outside of
the sandbox, so it can kill the command, and removes the folder afterwards.

Sources: landlock(7), the kernel's userspace-api/landlock.rst, capabilities(7).
"""

# Type checkers for other systems read this file, too.
# mypy: disable-error-code="attr-defined, unreachable"

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
import sys

from . import seccomp

FEATURES = {
    1: "files (Linux 5.13)",
    2: "moving files between folders (Linux 5.19)",
    3: "truncating files (Linux 6.2)",
    4: "TCP (Linux 6.7)",
    5: "devices (Linux 6.10)",
    6: "signals and abstract sockets (Linux 6.12)",
}
"""What each version of Landlock restricts for the first time. A sandbox needs all versions."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls, on all architectures."""
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_FIFO, _MAKE_SYM, _REFER, _TRUNCATE = 1 << 10, 1 << 12, 1 << 13, 1 << 14
_ALL_FILE_RIGHTS = (1 << 16) - 1
_ALL_TCP_RIGHTS = 3
_ALL_SCOPES = 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO | _MAKE_SYM | _REFER
_WRITE |= _TRUNCATE
_RIGHTS_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""The rights of a rule for a file. The kernel rejects those of folders."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROC_PATHS = (
    "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/uptime",
    "/proc/version", "/proc/self/auxv", "/proc/self/cgroup", "/proc/self/cmdline", "/proc/self/comm",
    "/proc/self/environ", "/proc/self/fd", "/proc/self/fdinfo", "/proc/self/limits", "/proc/self/maps",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
)  # fmt: skip
"""The readable paths of /proc. The others show other processes, or the network and the mounts of the machine."""
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    # From Python 3.14 on, the layout that `_pack_` implies has to be named.
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def get_abi() -> int:
    """Return the version of Landlock in this kernel, or 0 without Landlock."""
    if sys.platform != "linux":
        return 0
    version: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    return max(0, version)


class Restrictions:
    """The restrictions of one command, as the order describes them.

    `order` is JSON: `directory` (the working directory), `network` (whether it is allowed), `keeps_home` (whether HOME
    stays unchanged; otherwise it is the private folder), and the paths `system` (readable, if they exist), `files`
    (readable), `list` (folders whose file names can be read), `read` and `write`. The last two contain no links.
    """

    def __init__(self, order: str) -> None:
        self._order = json.loads(order)
        base = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the folder in it is private
        self._folder = os.path.join(base, f"mcp-bridge-{os.urandom(8).hex()}")
        os.mkdir(self._folder, 0o700)

    def apply(self) -> None:
        """Restrict this process and its descendants, for ever. Raises OSError."""
        order = self._order
        os.chdir(order["directory"])
        for name in ("TMPDIR", "TMP", "TEMP"):
            os.environ[name] = self._folder
        if not order["keeps_home"]:
            # Python finds the packages of the user in the home folder.
            os.environ.setdefault("PYTHONUSERBASE", os.path.expanduser("~/.local"))
            os.environ["HOME"] = self._folder
        libc = ctypes.CDLL(None, use_errno=True)
        attributes = _RulesetAttributes(_ALL_FILE_RIGHTS, 0 if order["network"] else _ALL_TCP_RIGHTS, _ALL_SCOPES)
        size = ctypes.sizeof(attributes)
        ruleset = _check(libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0), "Landlock")
        for path in (*order["system"], *_PROC_PATHS):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _add_rule(libc, ruleset, path, _READ)
        rules = [(_READ, order["files"]), (_READ_DIR, order["list"]), (_READ_FILE | _WRITE_FILE, _DEVICES)]
        for rights, paths in rules:
            for path in paths:
                _add_rule(libc, ruleset, path, rights)
        for rights, paths in ((_READ, order["read"]), (_WRITE, (*order["write"], self._folder))):
            for path in paths:
                _add_rule(libc, ruleset, path, rights, follow_links=False)
        _drop_capabilities(libc)
        _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
        os.close(ruleset)
        seccomp.install_filter(network=order["network"])

    def remove_folder(self) -> None:
        """Remove the private folder. All processes of the command must have ended."""
        # Python's own function cannot remove very deep folders.
        environment = {"PATH": f"{os.defpath}:{os.environ.get('PATH', '')}"}
        remove = ["rm", "-rf", "--", self._folder]
        os.spawnvpe(os.P_WAIT, "rm", remove, environment)  # noqa: S606
        # A command may leave folders without the permission to read them. If the sandbox of another command contains
        # this folder, that command may replace it by a link, which `chmod` must not follow.
        with contextlib.suppress(OSError):
            os.fchdir(os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW))
            os.spawnvpe(os.P_WAIT, "chmod", ["chmod", "-R", "u+rwx", "."], environment)  # noqa: S606
            os.spawnvpe(os.P_WAIT, "rm", remove, environment)  # noqa: S606


def _add_rule(libc: ctypes.CDLL, ruleset: int, path: str, rights: int, *, follow_links: bool = True) -> None:
    """Allow access to a path. Raises OSError, also if there is a link in the path and links are not followed."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not follow_links and os.readlink(f"/proc/self/fd/{descriptor}") != path:
            raise OSError(errno.ELOOP, "was replaced by a link", path)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _RIGHTS_OF_FILES
        rule = _PathBeneath(rights, descriptor)
        _check(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0), path)
    finally:
        os.close(descriptor)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up all capabilities that the process has, and those that executing a program could give back to root."""
    for number in range(_LAST_CAPABILITY + 1):
        # This fails for unknown capabilities, and without the capability to do it. Then there is nothing to give up.
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capabilities")


def _check(result: int, subject: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
    return result
