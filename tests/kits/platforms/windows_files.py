"""The rules of Windows for files: permissions, open files, text.

These functions replace those of `os` and `open` for all code, so that `pathlib`, `shutil` and `tempfile` follow the
rules too.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from tests.kits.platforms.environment import MARKER

ENCODING = "cp1252"
"""The encoding of text files, and of pipes, in Western Europe and America."""
_EXECUTABLE = (".exe", ".com", ".bat", ".cmd")
_SHARING_VIOLATION = "The process cannot access the file because it is being used by another process"
_DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{name}{number}" for name in ("COM", "LPT") for number in range(1, 10))}
_TEXT_DESCRIPTORS = set[int]()
"""Descriptors without O_BINARY."""
O_BINARY = 0x8000
O_TEXT, O_NOINHERIT, O_TEMPORARY, O_SHORT_LIVED, O_SEQUENTIAL, O_RANDOM = (1 << bit for bit in range(24, 30))
"""The flags that only Windows has. O_BINARY is O_LARGEFILE of Linux, and Linux does not use the other bits."""
_WINDOWS_FLAGS = O_BINARY | O_TEXT | O_NOINHERIT | O_TEMPORARY | O_SHORT_LIVED | O_SEQUENTIAL | O_RANDOM
_real = {
    function.__name__: function
    for function in (
        os.chmod, os.close, os.fstat, os.lstat, os.open, os.read, os.rename, os.replace, os.rmdir, os.stat, os.unlink,
        os.write,
    )
}  # fmt: skip
_real_open = io.open


def install() -> None:
    """Replace the functions of `os` and `open`."""
    changes: dict[str, Callable[..., Any]] = {
        "access": _access,
        "chmod": _chmod,
        "fstat": _hide_owner(_real["fstat"]),
        "lstat": _hide_owner(_real["lstat"]),
        "remove": _unlink,
        "rename": _rename,
        "replace": _replace,
        "rmdir": _rmdir,
        "stat": _hide_owner(_real["stat"]),
        "symlink": _symlink,
        "unlink": _unlink,
    }
    for name, function in changes.items():
        setattr(os, name, function)
    os.link = _link
    for flag in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks", "supports_effective_ids"):
        supported = getattr(os, flag)
        # shutil.rmtree uses descriptors of folders, if these sets have what it needs.
        supported.clear()
    io.open = builtins.open = _open_text  # type: ignore[assignment]


def read_real_mode(path: str) -> int:
    """Return the permissions on this system."""
    return int(_real["lstat"](path).st_mode)


def make_error(kind: type[OSError], number: int, code: int, message: str, *paths: object) -> OSError:
    """Return an error of the system with its code (`winerror`)."""
    error = kind(number, f"[WinError {code}] {message}", *paths[:1])
    error.winerror = code  # type: ignore[attr-defined]
    return error


def _hide_owner(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    """Return a function for the status of a file. Of the permissions, Windows only knows "read-only"."""

    def read_status(path: Any, **options: Any) -> os.stat_result:
        _, (values, extras) = real(_find_device(path), **options).__reduce__()  # type: ignore[misc]
        mode, suffix = values[0], ""
        if isinstance(path, str | os.PathLike):
            suffix = os.path.splitext(os.fspath(path))[1].lower()
        permissions = 0o666 if mode & stat.S_IWUSR else 0o444
        if stat.S_ISDIR(mode) or suffix in _EXECUTABLE:
            permissions |= 0o111
        return os.stat_result((stat.S_IFMT(mode) | permissions, *values[1:4], 0, 0, *values[6:]), extras)

    return read_status


def _find_device(path: Any) -> Any:
    """Return the path, or a device that loses everything if the path has the name of a device, in any folder."""
    if isinstance(path, str | os.PathLike):
        stem = os.path.basename(os.fspath(path)).partition(".")[0]
        if stem.rstrip(" ").upper() in _DEVICES:
            return os.devnull
    return path


def _access(path: Any, mode: int, **_: Any) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return not mode & os.W_OK or stat.S_ISDIR(status.st_mode) or bool(status.st_mode & stat.S_IWRITE)


def _chmod(path: Any, mode: int, **_: Any) -> None:
    """Set or remove "read-only"."""
    permissions = _real["stat"](path).st_mode & 0o777
    _real["chmod"](path, permissions | 0o200 if mode & stat.S_IWRITE else permissions & ~0o222)


def _unlink(path: Any, *, dir_fd: int | None = None) -> None:
    _check_unused(path, dir_fd)
    if not os.path.islink(path) and os.path.isfile(path) and not _real["stat"](path).st_mode & stat.S_IWUSR:
        raise make_error(PermissionError, errno.EACCES, 5, "Access is denied", path)
    _real["unlink"](path, dir_fd=dir_fd)


def _rmdir(path: Any, *, dir_fd: int | None = None) -> None:
    _check_unused(path, dir_fd)
    _real["rmdir"](path, dir_fd=dir_fd)


def _rename(source: Any, target: Any, **_: Any) -> None:
    if os.path.lexists(target):
        message = "Cannot create a file when that file already exists"
        raise make_error(FileExistsError, errno.EEXIST, 183, message, source)
    _check_unused(source)
    _real["rename"](source, target)


def _replace(source: Any, target: Any, **_: Any) -> None:
    if os.path.isdir(target):
        raise make_error(PermissionError, errno.EACCES, 5, "Access is denied", source)
    _check_unused(source)
    _check_unused(target)
    _real["replace"](source, target)


def _symlink(source: Any, target: Any, *_: Any, **__: Any) -> None:
    """Reject: users without the developer mode must not create links."""
    raise make_error(OSError, errno.EINVAL, 1314, "A required privilege is not held by the client", source, target)


_real_link = os.link


def _link(source: Any, target: Any, **_: Any) -> None:
    _real_link(source, target)


def _check_unused(path: Any, dir_fd: int | None = None) -> None:
    """Raise PermissionError for a file that a simulated process has open, and for a folder in which it is."""
    try:
        status = _real["lstat"](path, dir_fd=dir_fd)
    except OSError:
        # The function itself raises the error for a missing file.
        return
    if stat.S_ISLNK(status.st_mode):
        return
    for process in ("self", *filter(str.isdecimal, os.listdir("/dev/../proc"))):
        folder = f"/dev/../proc/{process}"
        try:
            if process != "self":
                with _real_open(f"{folder}/environ", "rb") as variables:
                    if MARKER.encode() + b"=win32" not in variables.read():
                        continue
            entries = [f"{folder}/cwd"]
            if not stat.S_ISDIR(status.st_mode):
                entries = [f"{folder}/fd/{number}" for number in os.listdir(f"{folder}/fd")]
        except OSError:
            continue
        for entry in entries:
            try:
                is_same = os.path.samestat(_real["stat"](entry), status)
            except OSError:
                continue
            if is_same:
                raise make_error(PermissionError, errno.EACCES, 32, _SHARING_VIOLATION, path)


def _open_text(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *options: Any,
    **named: Any,
) -> Any:
    """Open a file. Text has the encoding of the system and its line ends."""
    if isinstance(file, int):
        _TEXT_DESCRIPTORS.discard(file)
    if "b" not in mode:
        if encoding in {None, "locale"} and not sys.flags.utf8_mode:
            encoding = ENCODING
        if newline is None and mode[0] in "wax" and "+" not in mode:
            newline = "\r\n"
    return _real_open(_find_device(file), mode, buffering, encoding, errors, newline, *options, **named)


def open_descriptor(path: Any, flags: int, mode: int = 0o777, **_: Any) -> int:
    """Open a descriptor, which is for text without O_BINARY."""
    descriptor = int(_real["open"](_find_device(path), flags & ~_WINDOWS_FLAGS, mode | 0o600))
    if not flags & O_BINARY and stat.S_ISREG(_real["fstat"](descriptor).st_mode):
        _TEXT_DESCRIPTORS.add(descriptor)
    return descriptor


def open_file_object(descriptor: int, mode: str = "r", *args: Any, **options: Any) -> Any:
    """Open a descriptor as a file."""
    if "b" not in mode and not args:
        options.setdefault("buffering", -1)
    return _open_text(descriptor, mode, *args, **options)


def write(descriptor: int, data: Any) -> int:
    """Write to a descriptor, with the line ends of text."""
    if descriptor in _TEXT_DESCRIPTORS:
        _real["write"](descriptor, bytes(data).replace(b"\n", b"\r\n"))
        return len(data)
    return int(_real["write"](descriptor, data))


def read(descriptor: int, length: int) -> bytes:
    """Read from a descriptor, with the line ends of text."""
    data: bytes = _real["read"](descriptor, length)
    if descriptor in _TEXT_DESCRIPTORS:
        return data.replace(b"\r\n", b"\n")
    return data


def close(descriptor: int) -> None:
    """Close a descriptor."""
    _TEXT_DESCRIPTORS.discard(descriptor)
    _real["close"](descriptor)
