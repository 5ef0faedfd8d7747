"""The module `msvcrt`: locks of files, and modes of descriptors."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from types import ModuleType

LK_UNLCK, LK_LOCK, LK_NBLCK, LK_RLCK, LK_NBRLCK = range(5)
_ATTEMPTS = 10
"""The attempts of LK_LOCK, one per second."""


def make_msvcrt() -> ModuleType:
    """Return the module."""
    module = ModuleType("msvcrt")
    names: dict[str, object] = {
        "LK_LOCK": LK_LOCK, "LK_NBLCK": LK_NBLCK, "LK_NBRLCK": LK_NBRLCK, "LK_RLCK": LK_RLCK, "LK_UNLCK": LK_UNLCK,
        "get_osfhandle": lambda descriptor: descriptor,
        "getch": lambda: os.read(0, 1),
        "getwch": lambda: os.read(0, 1).decode("latin-1"),
        "kbhit": lambda: False,
        "locking": lock_region,
        "open_osfhandle": lambda handle, flags: handle,
        "setmode": lambda descriptor, flags: 0,
    }  # fmt: skip
    for name, value in names.items():
        setattr(module, name, value)
    return module


def lock_region(descriptor: int, mode: int, length: int) -> None:
    """Lock or unlock bytes from the current position of a file. A lock belongs to a handle, not to a process.

    Raises OSError if another handle has the lock: at once, or after ten attempts in ten seconds (LK_LOCK).
    """
    kind = fcntl.F_UNLCK if mode == LK_UNLCK else fcntl.F_WRLCK
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    # struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid.
    region = struct.pack("hhqqi4x", kind, os.SEEK_SET, position, length, 0)
    attempts = _ATTEMPTS if mode in (LK_LOCK, LK_RLCK) else 1
    for attempt in range(attempts):
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, region)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return
        if attempt + 1 < attempts:
            time.sleep(1)
    if attempts > 1:
        raise OSError(errno.EDEADLK, "Resource deadlock avoided")
    raise PermissionError(errno.EACCES, "Permission denied")
