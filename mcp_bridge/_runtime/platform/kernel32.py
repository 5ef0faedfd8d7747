"""Calls the API of Windows: job objects, standard handles, file locks and access rights.

Each function is one step of `windows`, with numbers and texts as its arguments. The names of constants and structures
are those of the Windows SDK. All functions raise OSError. Imports are late, because most starts need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

_JOB_EXTENDED_LIMITS = 9
"""JobObjectExtendedLimitInformation, the class of JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""
_KILL_ON_JOB_CLOSE = 0x2000
"""JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE."""
_ASSIGN_RIGHTS = 0x0100 | 0x0001
"""PROCESS_SET_QUOTA and PROCESS_TERMINATE."""
_CTRL_BREAK_EVENT = 1
_STANDARD_HANDLES = (-10, -11, -12)
"""STD_INPUT_HANDLE, STD_OUTPUT_HANDLE and STD_ERROR_HANDLE."""
_OWNER_AND_RIGHTS = 0x1 | 0x4
"""OWNER_SECURITY_INFORMATION and DACL_SECURITY_INFORMATION."""
_SDDL_REVISION = 1
_FILE_OBJECT = 1
"""SE_FILE_OBJECT."""
_TOKEN_QUERY, _TOKEN_USER = 0x8, 1


def _import_module(name: str) -> Any:
    """Import a module of which some members exist on Windows only, and are unknown to type checkers elsewhere."""
    return import_module(name)


def _load_library(name: str) -> Any:
    return _import_module("ctypes").WinDLL(name, use_last_error=True)


def _make_windows_error(code: int | None = None) -> OSError:
    """Return the error with this code, or the last one of this thread."""
    ctypes = _import_module("ctypes")
    error: OSError = ctypes.WinError(ctypes.get_last_error() if code is None else code)
    return error


def create_job() -> int:
    """Create a job, whose processes all end when its last handle is closed. Return the handle."""
    import ctypes
    from ctypes import wintypes

    class BasicLimits(ctypes.Structure):
        """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", ctypes.c_uint32),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", ctypes.c_uint32),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", ctypes.c_uint32),
            ("SchedulingClass", ctypes.c_uint32),
        )

    class ExtendedLimits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION. `IoInfo` is IO_COUNTERS, six numbers of 64 bits."""

        _fields_ = (
            ("BasicLimitInformation", BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    library = _load_library("kernel32")
    library.CreateJobObjectW.restype = wintypes.HANDLE
    job = library.CreateJobObjectW(None, None)
    if not job:
        raise _make_windows_error()
    limits = ExtendedLimits()
    limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
    size = ctypes.sizeof(limits)
    handle = wintypes.HANDLE(job)
    if not library.SetInformationJobObject(handle, _JOB_EXTENDED_LIMITS, ctypes.byref(limits), size):
        error = _make_windows_error()
        close_handle(job)
        raise error
    return int(job)


def assign_to_job(job: int, pid: int) -> None:
    """Put a process into a job. Its future children belong to the job, too."""
    from ctypes import wintypes

    library = _load_library("kernel32")
    library.OpenProcess.restype = wintypes.HANDLE
    process = library.OpenProcess(_ASSIGN_RIGHTS, False, pid)
    if not process:
        raise _make_windows_error()
    try:
        if not library.AssignProcessToJobObject(wintypes.HANDLE(job), wintypes.HANDLE(process)):
            raise _make_windows_error()
    finally:
        close_handle(process)


def terminate_job(job: int) -> None:
    """End all processes of a job with exit code 1."""
    from ctypes import wintypes

    library = _load_library("kernel32")
    if not library.TerminateJobObject(wintypes.HANDLE(job), 1):
        raise _make_windows_error()


def send_break(group: int) -> None:
    """Send CTRL_BREAK_EVENT to the processes of a group that share the console of this one."""
    if not _load_library("kernel32").GenerateConsoleCtrlEvent(_CTRL_BREAK_EVENT, group):
        raise _make_windows_error()


def close_handle(handle: int) -> None:
    """Close a handle of this process."""
    from ctypes import wintypes

    _load_library("kernel32").CloseHandle(wintypes.HANDLE(handle))


def has_console() -> bool:
    """Whether this process is attached to a console. Programs of the desktop are not."""
    from ctypes import wintypes

    processes = (wintypes.DWORD * 1)()
    return bool(_load_library("kernel32").GetConsoleProcessList(processes, 1))


def set_standard_handle(descriptor: int) -> None:
    """Let children inherit the file of descriptor 0, 1 or 2. Duplicating a descriptor changes only the C library."""
    msvcrt = _import_module("msvcrt")
    from ctypes import wintypes

    library = _load_library("kernel32")
    handle = wintypes.HANDLE(msvcrt.get_osfhandle(descriptor))
    if not library.SetStdHandle(wintypes.DWORD(_STANDARD_HANDLES[descriptor] & 0xFFFFFFFF), handle):
        raise _make_windows_error()


def lock_byte(descriptor: int, position: int) -> bool:
    """Lock a byte of an open file, which may lie beyond its end. Return False if another process holds the lock."""
    msvcrt = _import_module("msvcrt")
    import os

    os.lseek(descriptor, position, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    return True


def unlock_byte(descriptor: int, position: int) -> None:
    """Release the lock of a byte."""
    msvcrt = _import_module("msvcrt")
    import os

    os.lseek(descriptor, position, os.SEEK_SET)
    msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)


def share_socket(shared: socket.socket, pid: int) -> bytes:
    """Return data with which another process gets the same socket (WSADuplicateSocketW)."""
    data: bytes = shared.share(pid)  # type: ignore[attr-defined,unused-ignore]
    return data


def receive_socket(data: bytes) -> socket.socket:
    """Return the socket for the data of `share_socket`."""
    received: socket.socket = _import_module("socket").fromshare(data)
    return received


def read_key() -> bytes:
    """Return the next typed key, or nothing if there is none yet."""
    msvcrt = _import_module("msvcrt")

    return msvcrt.getwch().encode(errors="replace") if msvcrt.kbhit() else b""


def read_access_rights(path: str) -> str:
    """Return the owner and the access rights of a file or folder in the Security Descriptor Definition Language."""
    import ctypes
    from ctypes import wintypes

    library = _load_library("advapi32")
    descriptor, text = ctypes.c_void_p(), ctypes.c_wchar_p()
    parts = wintypes.DWORD(_OWNER_AND_RIGHTS)
    reference = ctypes.byref(descriptor)
    error = library.GetNamedSecurityInfoW(path, _FILE_OBJECT, parts, None, None, None, None, reference)
    if error:
        raise _make_windows_error(error)
    convert = library.ConvertSecurityDescriptorToStringSecurityDescriptorW
    try:
        if not convert(descriptor, wintypes.DWORD(_SDDL_REVISION), parts, ctypes.byref(text), None):
            raise _make_windows_error()
        return str(text.value)
    finally:
        _free_memory(descriptor, text)


def read_user_sid() -> str:
    """Return the security identifier of the user of this process."""
    import ctypes
    from ctypes import wintypes

    library = _load_library("advapi32")
    kernel = _load_library("kernel32")
    kernel.GetCurrentProcess.restype = wintypes.HANDLE
    token, text = wintypes.HANDLE(), ctypes.c_wchar_p()
    process = wintypes.HANDLE(kernel.GetCurrentProcess())
    if not library.OpenProcessToken(process, _TOKEN_QUERY, ctypes.byref(token)):
        raise _make_windows_error()
    try:
        # TOKEN_USER begins with a pointer to the SID, which follows in the same buffer.
        buffer = (ctypes.c_void_p * 64)()
        size = wintypes.DWORD()
        if not library.GetTokenInformation(token, _TOKEN_USER, buffer, ctypes.sizeof(buffer), ctypes.byref(size)):
            raise _make_windows_error()
        if not library.ConvertSidToStringSidW(ctypes.c_void_p(buffer[0]), ctypes.byref(text)):
            raise _make_windows_error()
        return str(text.value)
    finally:
        _free_memory(text)
        close_handle(token.value or 0)


def _free_memory(*pointers: object) -> None:
    """Free memory that a function of Windows has allocated (LocalFree)."""
    import ctypes

    for pointer in pointers:
        _load_library("kernel32").LocalFree(ctypes.cast(pointer, ctypes.c_void_p))  # type: ignore[arg-type]
