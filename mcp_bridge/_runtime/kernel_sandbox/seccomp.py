"""The filters of system calls for a process in a sandbox (seccomp(2)).

bubblewrap and Landlock decide about files and other processes. The filters forbid what these do not know: both filters
interfaces of the kernel that lead out of a sandbox or have many vulnerabilities, and the one for Landlock also what
bubblewrap separates by namespaces. They allow all other calls, because the programs are not known, and because calls
that need capabilities fail in any case: the process has none, and cannot get any.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

# Importing `typing` would take a quarter of the time in which the script of the supervisor starts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Numbers = tuple[int, int | None]
"""The numbers of a system call, by the column of the architecture."""
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the column in the tables below, and its AUDIT_ARCH value (linux/audit.h)."""
_FIRST_UNKNOWN = 470
"""Calls from this number on are missing, because they are newer than this list. On x86_64, they include those of the
x32 ABI, which would bypass the filter (seccomp(2), "Caveats")."""

FORBIDDEN: dict[str, Numbers] = {
    # Access to the memory and descriptors of other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "perf_event_open": (298, 241),
    # Keyrings belong to the user.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Namespaces give capabilities, with which a process reaches far more of the kernel.
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # Interfaces with many vulnerabilities, or that report on the whole machine.
    "bpf": (321, 280), "userfaultfd": (323, 282), "syslog": (103, 116), "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265), "quotactl": (179, 60), "quotactl_fd": (443, 443),
}  # fmt: skip
"""System calls that fail with EPERM: their numbers on x86_64 and aarch64 (None: the architecture has no such call)."""
MISSING: dict[str, Numbers] = {
    # The arguments of clone3 are in memory, where a filter cannot read them. Programs then use clone.
    "clone3": (435, 435),
    # The operations of io_uring are not system calls, so a filter would not see them.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
"""System calls that fail with ENOSYS, as in a kernel without them."""
LANDLOCK_FORBIDDEN: dict[str, Numbers] = {
    # Without namespaces, shared memory, semaphores and message queues belong to the whole machine.
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    # Landlock does not restrict owners and times of files (landlock(7), "Caveats").
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None), "file_setattr": (469, 469),
}  # fmt: skip
"""System calls that also fail with EPERM in a sandbox with Landlock."""
LANDLOCK_MISSING: dict[str, Numbers] = {
    # The arguments of openat2 are in memory. Programs then use openat.
    "openat2": (437, 437),
    # inotify would report the names of files in folders that cannot be read. Without it, programs compare the files.
    "inotify_init": (253, None), "inotify_init1": (294, 26),
}  # fmt: skip
"""System calls that also fail with ENOSYS in a sandbox with Landlock."""
LANDLOCK_UNSUPPORTED: dict[str, Numbers] = {
    # Landlock does not restrict attributes and access control lists of files.
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "getxattrat": (464, 464),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13), "listxattrat": (465, 465),
}  # fmt: skip
"""System calls that fail with ENOTSUP in a sandbox with Landlock, as for a file system without attributes."""
_OWN_PROCESS_ONLY: dict[str, Numbers] = {
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
"""System calls whose first argument has to be 0, this process. Otherwise they could disturb the bridge."""
_CHMOD_CALLS: tuple[tuple[Numbers, int], ...] = (((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2))
"""The calls chmod, fchmod, fchmodat and fchmodat2, and the place of the mode among their arguments."""
_SOCKET, _SOCKETPAIR, _CLONE, _IOCTL = (41, 198), (53, 199), (56, 220), (16, 29)
_OPEN: Numbers = (2, None)
_OPENAT, _UTIMENSAT = (257, 56), (280, 88)
_SETPRIORITY, _IOPRIO_SET = (141, 140), (251, 30)

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCKET_TYPE_MASK, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_NAMESPACE_FLAGS = 0x7E020000
"""The flags CLONE_NEW* of clone(2)."""
_MODE_MASK, _USUAL_MODE = 0o7044, 0o044
"""A usual mode lets all users read, and has no special bits: 644, 755, 666."""
_O_ACCMODE = 3
"""The access mode of open(2). With both bits set, the descriptor is only for ioctl(2); Landlock does not check it."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""The operations of ioctl(2) that write input for a terminal: TIOCSTI, TIOCLINUX."""
_FILE_ATTRIBUTES = (0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x401C5820, 0x40806685)
"""Those that change attributes of files: FS_IOC_SETFLAGS and FS_IOC_SETVERSION (64 and 32 bits), FS_IOC_FSSETXATTR,
FS_IOC_ENABLE_VERITY."""
DESCRIPTOR = 11
"""The descriptor from which bubblewrap reads its filter. The one before it belongs to the proxy of a sandbox."""

# Instructions of classic BPF (linux/bpf_common.h), and the data of a call (struct seccomp_data).
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]
"""An instruction of BPF: its code, how many instructions to skip if it is true and if it is false, and its operand."""


class _SockFilter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_SockFilter)))


def is_supported() -> bool:
    """Whether the filters know the system calls of this machine. A 32-bit Python has others."""
    return platform.machine() in _ARCHITECTURES and sys.maxsize > 2**32


def install_filter(*, network: bool) -> None:
    """Forbid system calls to this process and its descendants, for ever. Raises OSError.

    The process must not be able to get new privileges.

    Args:
        network: Whether sockets of the internet protocols are allowed.
    """
    instructions = build_landlock_filter(platform.machine(), network=network)
    program = (_SockFilter * len(instructions))(*(_SockFilter(*instruction) for instruction in instructions))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_SockFprog(len(program), program)), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not accept a filter of system calls (seccomp)")


def provide_filter() -> None:
    """Let bubblewrap, as which this process continues, read its filter from DESCRIPTOR."""
    reading_end, writing_end = os.pipe()
    # The filter is smaller than the smallest pipe, of 4 KiB (pipe(7)).
    with open(writing_end, "wb") as pipe:
        for instruction in build_bubblewrap_filter(platform.machine()):
            pipe.write(bytes(_SockFilter(*instruction)))
    os.dup2(reading_end, DESCRIPTOR)


def build_landlock_filter(machine: str, *, network: bool) -> list[Instruction]:
    """Return the filter for a sandbox with Landlock on a machine, `x86_64` or `aarch64`."""
    builder = _FilterBuilder(machine)
    builder.add_errors(LANDLOCK_FORBIDDEN, errno.EPERM)
    builder.add_errors(LANDLOCK_MISSING, errno.ENOSYS)
    builder.add_errors(LANDLOCK_UNSUPPORTED, errno.ENOTSUP)
    add_rule = builder.add_rule
    for numbers in _OWN_PROCESS_ONLY.values():
        add_rule(numbers, _load_argument(0), *_allow_only(0))
    families = (_AF_INET, _AF_INET6, _AF_NETLINK) if network else ()
    # Landlock does not restrict Unix sockets with a path, such as Docker's. So the filter allows only connected pairs
    # of Unix sockets. It allows no pairs of datagram sockets, because these could still send to other sockets.
    add_rule(_SOCKET, _load_argument(0), *_allow_only(*families))
    pair_types = _allow_only(_SOCK_STREAM, _SOCK_SEQPACKET)
    type_check = [_load_argument(1), (_AND, 0, 0, _SOCKET_TYPE_MASK), *pair_types]
    add_rule(_SOCKETPAIR, _load_argument(0), (_JUMP_EQUAL, 1, 0, _AF_UNIX), _fail(errno.EPERM), *type_check)
    add_rule(_IOCTL, _load_argument(1), *_allow_others((*_TERMINAL_INPUT, *_FILE_ATTRIBUTES)))
    for numbers, place in ((_OPEN, 1), (_OPENAT, 2)):
        add_rule(numbers, _load_argument(place), (_AND, 0, 0, _O_ACCMODE), *_allow_others([_O_ACCMODE]))
    # Landlock does not restrict modes either. Programs that copy files set a usual mode, so these calls seem to
    # succeed, but change nothing. Calls with a mode that would protect a file fail.
    for numbers, place in _CHMOD_CALLS:
        mode_check = [(_AND, 0, 0, _MODE_MASK), (_JUMP_EQUAL, 0, 1, _USUAL_MODE), _fail(0), _fail(errno.EPERM)]
        add_rule(numbers, _load_argument(place), *mode_check)
    add_rule(_UTIMENSAT, *_check_times())
    # The first argument is PRIO_PROCESS or IOPRIO_WHO_PROCESS, the second one 0 for this process.
    for numbers, own_process in ((_SETPRIORITY, 0), (_IOPRIO_SET, 1)):
        identity_check = [_load_argument(1), *_allow_only(0)]
        add_rule(numbers, _load_argument(0), (_JUMP_EQUAL, 1, 0, own_process), _fail(errno.EPERM), *identity_check)
    return builder.program


def build_bubblewrap_filter(machine: str) -> list[Instruction]:
    """Return the filter for a sandbox with bubblewrap on a machine, `x86_64` or `aarch64`."""
    builder = _FilterBuilder(machine)
    # A network namespace does not separate AF_VSOCK, which reaches the host of a virtual machine. getaddrinfo(3) uses
    # AF_NETLINK.
    for numbers in (_SOCKET, _SOCKETPAIR):
        builder.add_rule(numbers, _load_argument(0), *_allow_only(_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK))
    builder.add_rule(_IOCTL, _load_argument(1), *_allow_others(_TERMINAL_INPUT))
    return builder.program


class _FilterBuilder:
    """Builds a filter. It begins with what every sandbox forbids."""

    def __init__(self, machine: str) -> None:
        self._column, architecture = _ARCHITECTURES[machine]
        self._program = [
            _load_word(_ARCHITECTURE),
            (_JUMP_EQUAL, 1, 0, architecture),
            (_RETURN, 0, 0, _KILL),
            _load_word(_NUMBER),
        ]
        self._program += [(_JUMP_GREATER_EQUAL, 0, 1, _FIRST_UNKNOWN), _fail(errno.ENOSYS)]
        self.add_errors(FORBIDDEN, errno.EPERM)
        self.add_errors(MISSING, errno.ENOSYS)
        self.add_rule(_CLONE, _load_argument(0), (_AND, 0, 0, _NAMESPACE_FLAGS), *_allow_only(0))

    def add_errors(self, calls: Mapping[str, Numbers], error: int) -> None:
        """Let these calls fail with an error."""
        for numbers in calls.values():
            self.add_rule(numbers, _fail(error))

    def add_rule(self, numbers: Numbers, *instructions: Instruction) -> None:
        """Let instructions decide about the call with the number in the column of the machine."""
        number = numbers[self._column]
        if number is not None:
            self._program += [(_JUMP_EQUAL, 0, len(instructions), number), *instructions]

    @property
    def program(self) -> list[Instruction]:
        """The filter, which allows all other calls."""
        return [*self._program, (_RETURN, 0, 0, _ALLOW)]


def _load_word(offset: int) -> Instruction:
    return _LOAD, 0, 0, offset


def _load_argument(place: int) -> Instruction:
    """Load the lower half of an argument. Both machines are little-endian."""
    return _load_word(_ARGUMENTS + 8 * place)


def _fail(number: int) -> Instruction:
    """End the call with this error, or with 0 as if it had succeeded."""
    return _RETURN, 0, 0, _ERROR | number


def _check_times() -> list[Instruction]:
    """Allow utimensat(2) for an open file, but not with a path.

    With a path, setting explicit times seems to succeed, because programs that copy files do this. Setting the current
    time fails, and programs then open the file instead. Pointers have 64 bits.
    """
    path, times = _ARGUMENTS + 8, _ARGUMENTS + 16
    return [
        _load_word(path),
        (_JUMP_EQUAL, 0, 3, 0),
        _load_word(path + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        _load_word(times),
        (_JUMP_EQUAL, 0, 2, 0),
        _load_word(times + 4),
        (_JUMP_EQUAL, 1, 0, 0),
        _fail(0),
        _fail(errno.EPERM),
    ]


def _allow_only(*values: int) -> list[Instruction]:
    """Allow the call if the loaded value is one of these, else fail with EPERM."""
    checks = [(_JUMP_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*checks, _fail(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _allow_others(values: Iterable[int]) -> list[Instruction]:
    """Fail with EPERM if the loaded value is one of these, else allow the call."""
    checks = []
    for value in values:
        checks += [(_JUMP_EQUAL, 0, 1, value), _fail(errno.EPERM)]
    return [*checks, (_RETURN, 0, 0, _ALLOW)]
