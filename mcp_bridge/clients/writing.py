"""A client's file, read and replaced as a whole: atomically, with a backup, never over what another program wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.edit import Changed, newline_of, unsafe

MAX_BYTES = 64 << 20
KEPT = 3
"""How many backups of a file stay beside it: the newest."""
SUFFIX = ".mcp-bridge-backup-"

_BOM = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in the place of the file is an error, and no wait
_BINARY = getattr(os, "O_BINARY", 0)
_PRIVATE = 0o600
_NO_FILE = "not a file but a folder, a pipe or a device"
_AWAY = "Move it out of the way."


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A file as it was read."""

    path: Path
    target: Path
    """Where `path` leads: what is replaced, so that a link stays a link."""
    content: str
    """The text without a byte order mark, its line ends as they are; empty where there is no file."""
    newline: str
    """The line end that most lines have."""
    bom: bool
    existed: bool
    raw: bytes


def load(path: Path) -> Text:
    """The file; one that is not there is an empty text.

    Raises Unsafe where it is no text in UTF-8, ConfigError where it cannot be read: a link that leads nowhere or in a
    circle, a folder, a pipe, a device, a file that belongs to somebody else.
    """
    with _told(path, "read"):
        target = _target(path)
        raw = _raw(target, path)
    if raw is None:
        return Text(path=path, target=target, content="", newline="\n", bom=False, existed=False, raw=b"")
    content = _text(raw.removeprefix(_BOM), path)
    bom = raw.startswith(_BOM)
    return Text(path=path, target=target, content=content, newline=newline_of(content), bom=bom, existed=True, raw=raw)


def save(path: Path, old: Text, new: str | None, *, backup: bool) -> Path | None:
    """Replace the file that was read as `old` by the text `new`, or take it away for None; the backup's path.

    A text that is the same is not written. A new file can be read by its owner alone; folders for it are made, and
    stay. A file that is reached by a link is emptied rather than taken away.

    Raises ConfigError with nothing changed: somebody else has written the file since it was read, it is read-only, or
    the disk is full.
    """
    if new is None and path.is_symlink():
        new = ""
    data = None if new is None else (_BOM if old.bom else b"") + new.encode()
    if data == (old.raw if old.existed else None):
        return None
    return _replace(old, data, old.raw if old.existed else None, backup=backup)


def restore(old: Text) -> None:
    """Put a file back byte for byte as it was read, whatever it holds now. Raises ConfigError."""
    with _told(old.path, "read"):
        now = _raw(old.target, old.path)
    before = old.raw if old.existed else None
    if now != before:
        _replace(old, before, now, backup=False)


def back_up(old: Text) -> Path | None:
    """Copy the file, as it was read, to a name beside it that has the time; None where there was none.

    Raises ConfigError. The oldest of more than three copies are taken away.
    """
    if not old.existed:
        return None
    with _told(old.path, "backed up"):
        mode = stat.S_IMODE(old.target.stat().st_mode) & _PRIVATE
        copy = _copied(old, mode)
        _fewer(old.target, copy)
        return copy


def _replace(old: Text, data: bytes | None, expected: bytes | None, *, backup: bool) -> Path | None:
    """Put `data` where `expected` is; None is no file."""
    copy: Path | None = None
    with _told(old.path, "written"):
        _may_write(old)
        old.target.parent.mkdir(parents=True, exist_ok=True)
        new = None if data is None else _written_beside(old.target, data)
        try:
            copy = back_up(old) if backup else None
            if _raw(old.target, old.path) != expected or _target(old.path) != old.target:
                raise Changed("another program has just changed it", path=str(old.path), hint="Try again.")
            if new is None:
                old.target.unlink()
            else:
                new.replace(old.target)
        except BaseException:
            for leftover in (new, copy):
                with contextlib.suppress(OSError, AttributeError):
                    leftover.unlink()  # type: ignore[union-attr]
            raise
        _sync_folder(old.target.parent)
        if _raw(old.target, old.path) != data:
            problem = "another program has changed it just after it was written"
            raise Changed(problem, path=str(old.path), hint="Try again.")
    return copy


def _target(path: Path) -> Path:
    """Where the path leads, through all links."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ConfigError("a link that leads in a circle", path=str(path), hint="Mend the link.")
    if path.is_symlink() and not target.exists():
        raise ConfigError(f"a link to {target}, where nothing is", path=str(path), hint="Mend the link, or remove it.")
    return target


def _raw(target: Path, path: Path) -> bytes | None:
    """The file's bytes, None where there is none."""
    if os.path.isdir(target):
        raise ConfigError(_NO_FILE, path=str(path), hint=_AWAY)
    try:
        file = os.open(target, os.O_RDONLY | _NONBLOCK | _BINARY)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise ConfigError(_NO_FILE, path=str(path), hint=_AWAY)
        if about.st_size > MAX_BYTES:
            raise ConfigError(f"larger than {MAX_BYTES >> 20} MiB", path=str(path))
        return opened.read()


def _text(raw: bytes, path: Path) -> str:
    problem, line = "not text in UTF-8", None
    if not raw.startswith(_WIDE):
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
    else:
        problem = "text in UTF-16, not UTF-8"
    broken = unsafe(problem, line=line, hint="Save it as UTF-8 in an editor, then run the command again.")
    broken.path = str(path)
    raise broken


def _may_write(old: Text) -> None:
    """Replacing a file needs no permission for it: what is said to be read-only is left alone all the same."""
    if not old.existed:
        return
    about = old.target.stat()
    if not about.st_mode & 0o222 or not os.access(old.target, os.W_OK):
        raise ConfigError("read-only", path=str(old.path), hint="Make it writable, or edit it yourself.")
    if about.st_nlink > 1:
        raise ConfigError("a file with several names (hard links)", path=str(old.path), hint="Edit it yourself.")


def _written_beside(target: Path, data: bytes) -> Path:
    """A new file with the data, safely on the disk, with the mode and as far as possible the owner of the old one."""
    file, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    new = Path(name)
    try:
        with open(file, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(file)
        if target.exists():
            _keep_owner(target, new)
            shutil.copystat(target, new)
            os.utime(new)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def _keep_owner(target: Path, new: Path) -> None:
    about, mine = target.stat(), new.stat()
    if hasattr(os, "chown") and (about.st_uid, about.st_gid) != (mine.st_uid, mine.st_gid):
        with contextlib.suppress(PermissionError):
            os.chown(new, about.st_uid, about.st_gid)


def _copied(old: Text, mode: int) -> Path:
    """The copy, under a name that no other has."""
    for _ in range(100):
        now = time.time_ns()
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(now // 10**9))
        copy = old.target.with_name(f"{old.target.name}{SUFFIX}{when}-{now % 10**9:09}")
        try:
            file = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode or _PRIVATE)
        except FileExistsError:
            continue
        try:
            with open(file, "wb") as opened:
                opened.write(old.raw)
                opened.flush()
                os.fsync(file)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy
    raise ConfigError("no name is free for a backup", path=str(old.path))


def _fewer(target: Path, newest: Path) -> None:
    """Take the oldest backups away; never the newest, which a clock that was set back can make look old."""
    prefix = f"{target.name}{SUFFIX}"
    ours = sorted(path for path in target.parent.iterdir() if path.name.startswith(prefix) and path != newest)
    for path in ours[: 1 - KEPT]:
        with contextlib.suppress(OSError):
            path.unlink()


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # Windows opens no folders
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


@contextlib.contextmanager
def _told(path: Path, done: str) -> Iterator[None]:
    """An error of the system as one that names the file."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot be {done}: {error.strerror or error}", path=str(path)) from None
