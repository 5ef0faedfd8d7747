"""Reads and replaces the file of a client.

The file is replaced atomically, after a backup, and not if another program has changed it since it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.platform import system
from mcp_bridge._settings.documents.syntax import FileChanged, UnsafeEdit

MAX_BYTES = 64 << 20
MAX_BACKUPS = 3
"""The number of backups of a file that are kept."""

_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PRIVATE = 0o600
_LONGEST_PATH = 200
"""The maximum number of bytes of a path in the name of a backup. A longer one has a hash in place of its folders."""
_NO_FILE = "not a file but a folder, a pipe or a device"
_MOVE_IT = "Move it out of the way."


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSnapshot:
    """A file as it was read."""

    path: Path
    target: Path
    """The file to which `path` leads through links. This file is replaced, so that links stay."""
    content: str
    """The text without a byte order mark, with the line ends of the file; empty if there is no file."""
    bom: bool
    existed: bool
    raw: bytes


def load_file(path: Path) -> FileSnapshot:
    """Read the file. A missing file is an empty text.

    Raises UnsafeEdit if it is not UTF-8 text, ConfigError if it cannot be read: a broken or circular
    link, a folder, a pipe, a device, a file of another user.
    """
    with _convert_os_errors(path, "read"):
        target = _resolve_target(path)
        raw = _read_bytes(target, path)
    if raw is None:
        return FileSnapshot(path=path, target=target, content="", bom=False, existed=False, raw=b"")
    content = _decode(raw.removeprefix(_BOM), path)
    bom = raw.startswith(_BOM)
    return FileSnapshot(path=path, target=target, content=content, bom=bom, existed=True, raw=raw)


def save_file(path: Path, old: FileSnapshot, new: str | None, *, backup_folder: Path | None = None) -> Path | None:
    """Replace the text of a file, or remove the file if `new` is None. Return the path of the backup.

    `old` is the file as it was read. An equal text is not written. A new file can be read only by its owner, and
    missing folders are created. If the path is a link, the file is emptied instead of removed. Without `backup_folder`,
    there is no backup.

    Raises ConfigError, and changes nothing, if another program has changed the file since it was read, the file is
    read-only, or the disk is full.
    """
    if new is None and path.is_symlink():
        new = ""
    data = None
    if new is not None:
        data = (_BOM if old.bom else b"") + new.encode()
    old_content = old.raw if old.existed else None
    if data == old_content:
        return None
    return _replace_file(old, data, old_content, backup_folder=backup_folder)


def restore_file(old: FileSnapshot) -> None:
    """Restore every byte of a file as it was read. Raises ConfigError."""
    with _convert_os_errors(old.path, "read"):
        current_content = _read_bytes(old.target, old.path)
    before = old.raw if old.existed else None
    if current_content != before:
        _replace_file(old, before, current_content)


def list_missing_folders(path: Path) -> list[Path]:
    """Return the missing folders of a file, the innermost first."""
    return [folder for folder in path.parents if not os.path.lexists(folder)]


def remove_empty_folders(path: Path, made: Sequence[str]) -> None:
    """Remove the empty folders of a file, if they are in `made`: those created for the file."""
    with contextlib.suppress(OSError):
        for folder in path.parents:
            if str(folder) not in made:
                return
            folder.rmdir()


def write_backup(old: FileSnapshot, folder: Path) -> Path | None:
    """Write a backup of the file as it was read into a folder. Return its path; None without a file.

    Its name has the path of the file, because the folder has the backups of all clients. Only its owner can read it: a
    client's file may have the secrets of other servers. Only the newest `MAX_BACKUPS` are kept. Raises ConfigError.
    """
    if not old.existed:
        return None
    with _convert_os_errors(folder, "written", hint="Without a backup, no file is changed. Make the folder writable."):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = f"{_flatten_path(old.target)}."
        copy = _write_backup_copy(old, folder, prefix)
        # The newest backup stays, even if it looks old because the clock was set back.
        others = sorted(path for path in folder.iterdir() if path.name.startswith(prefix) and path != copy)
        for path in others[: 1 - MAX_BACKUPS]:
            with contextlib.suppress(OSError):
                path.unlink()
        return copy


def _flatten_path(path: Path) -> str:
    """Return a path as the name of a file: `home%ann%.cursor%mcp.json`."""
    name = re.sub(r"[/\\:]+", "%", str(path)).strip("%")
    encoded_path = os.fsencode(path)
    if len(encoded_path) <= _LONGEST_PATH:
        return name
    return f"{hashlib.sha256(encoded_path).hexdigest()[:12]}%{path.name[-40:]}"


def _replace_file(
    old: FileSnapshot, data: bytes | None, expected: bytes | None, *, backup_folder: Path | None = None
) -> Path | None:
    """Replace the content of a file by `data`, if it still is `expected`. None means that there is no file."""
    copy = None
    new = None
    with _convert_os_errors(old.path, "written"):
        _check_writable(old)
        new_folders = list_missing_folders(old.target)
        try:
            old.target.parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                new = _write_temporary_file(old.target, data)
            if backup_folder is not None:
                copy = write_backup(old, backup_folder)
            if _read_bytes(old.target, old.path) != expected or _resolve_target(old.path) != old.target:
                raise FileChanged("another program has just changed it", path=str(old.path), hint="Retry.")
            if new is None:
                old.target.unlink()
            else:
                new.replace(old.target)
        except BaseException:
            for leftover in (new, copy):
                if leftover is not None:
                    with contextlib.suppress(OSError):
                        leftover.unlink()
            remove_empty_folders(old.target, list(map(str, new_folders)))
            raise
        # The new name has to survive a power failure too. Windows cannot open folders.
        with contextlib.suppress(OSError):
            folder = os.open(old.target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        if _read_bytes(old.target, old.path) != data:
            problem = "another program has changed it just after it was written"
            raise FileChanged(problem, path=str(old.path), hint="Retry.")
    return copy


def _resolve_target(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ConfigError("a circular link", path=str(path), hint="Fix the link.")
    if path.is_symlink() and not target.exists():
        raise ConfigError(f"a link to {target}, which does not exist", path=str(path), hint="Fix or remove the link.")
    return target


def _read_bytes(target: Path, path: Path) -> bytes | None:
    if os.path.isdir(target):
        raise ConfigError(_NO_FILE, path=str(path), hint=_MOVE_IT)
    try:
        # A pipe may be in the place of the file, and opening it must not wait for a writer.
        file = os.open(target, os.O_RDONLY | system.OPEN_NOW | system.OPEN_BINARY)
    except FileNotFoundError:
        return None
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(_NO_FILE, path=str(path), hint=_MOVE_IT)
        if status.st_size > MAX_BYTES:
            raise ConfigError(f"larger than {MAX_BYTES >> 20} MiB", path=str(path))
        return stream.read()


def _decode(raw: bytes, path: Path) -> str:
    problem = "UTF-16 text, not UTF-8"
    line = None
    if not raw.startswith(_UTF_16):
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            problem = "not UTF-8 text"
            line = raw.count(b"\n", 0, error.start) + 1
    hint = "Save it as UTF-8 in an editor, then run the command again."
    raise UnsafeEdit(problem, path=str(path), line=line, hint=hint)


def _check_writable(old: FileSnapshot) -> None:
    """Raise ConfigError if a file must not be replaced.

    To replace a file, only its folder has to be writable, so a read-only file could be replaced. A file with several
    hard links would keep its old content under the other names.
    """
    if not old.existed:
        return
    status = old.target.stat()
    if not status.st_mode & 0o222 or not os.access(old.target, os.W_OK):
        raise ConfigError("read-only", path=str(old.path), hint="Make it writable, or edit it yourself.")
    if status.st_nlink > 1:
        raise ConfigError("a file with several names (hard links)", path=str(old.path), hint="Edit it yourself.")


def _write_temporary_file(target: Path, data: bytes) -> Path:
    """Write the data to a new file next to the target, with its mode and, where possible, its owner."""
    file, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    new = Path(name)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(file)
        if target.exists():
            status = target.stat()
            system.copy_owner(status, new)
            shutil.copystat(target, new)
            os.utime(new)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def _write_backup_copy(old: FileSnapshot, folder: Path, prefix: str) -> Path:
    for _ in range(100):
        timestamp = time.time_ns()
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(timestamp // 10**9))
        copy = folder / f"{prefix}{when}-{timestamp % 10**9:09}"
        try:
            file = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.OPEN_BINARY, _PRIVATE)
        except FileExistsError:
            continue
        try:
            with open(file, "wb") as stream:
                stream.write(old.raw)
                stream.flush()
                os.fsync(file)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy
    raise ConfigError("no free name for a backup", path=str(old.path))


@contextlib.contextmanager
def _convert_os_errors(path: Path, action: str, *, hint: str = "") -> Iterator[None]:
    """Raise errors of the system as ConfigError with the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot be {action}: {error.strerror or error}", path=str(path), hint=hint) from None
