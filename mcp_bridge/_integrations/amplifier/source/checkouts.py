"""Stores the files of fetched commits on this machine, and computes their hashes for the lock file.

A checkout is the folder with the files of one commit. It is complete or absent: a fetch writes to a temporary folder,
and moves it into place at the end.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.source.git import GitAddress
from mcp_bridge._runtime.file_names import make_file_name
from mcp_bridge._runtime.user_folders import get_data_folder

COMPILED = "__pycache__"
_PARTIAL = ".partial-"
# The remains of an interrupted fetch are deleted after this many seconds.
_ABANDONED = 24 * 3600
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Checkouts:
    """The checkouts in one folder, by repository and commit. Several bridges may share the folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder if folder is not None else get_data_folder() / "modules").absolute()

    def locate(self, address: GitAddress, commit: str) -> Path:
        """Return the folder of a checkout. It exists only if the commit was fetched."""
        # Users recognize the name. The hash distinguishes URLs with the same name.
        name = _UNSAFE.sub("-", address.url.partition("://")[2]).strip("-.")[-80:]
        url_hash = hashlib.sha256(address.url.encode()).hexdigest()[:12]
        return self.folder / make_file_name(f"{name}-{url_hash}") / commit / "files"

    @contextlib.contextmanager
    def create_temporary_folder(self) -> Iterator[Path]:
        """Create a temporary folder for the block, on the same disk as the checkouts. Raises ModuleLoadError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for folder in self.folder.glob(f"{_PARTIAL}*"):
                with contextlib.suppress(OSError):
                    if time.time() - folder.stat().st_mtime > _ABANDONED:
                        shutil.rmtree(folder, ignore_errors=True)
            temporary = tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self.folder, ignore_cleanup_errors=True)
        except OSError as error:
            raise ModuleLoadError(
                f"{self.folder}: modules cannot be stored there: {error.strerror or error}"
            ) from error
        with temporary as path:
            yield Path(path)


def move_into_place(complete: Path, target: Path, temporary: Path) -> None:
    """Move a complete folder to its target. An older folder there moves to the temporary folder. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        target.rename(Path(tempfile.mkdtemp(dir=temporary)) / "old")
    complete.rename(target)


def check_links(folder: Path, uri: str) -> None:
    """Raise ModuleLoadError for a symbolic link out of the folder, because it would expose or run other files."""
    top = folder.resolve()
    for path, is_link in _walk_files(folder):
        if not is_link:
            continue
        target = os.readlink(path)
        try:
            is_inside = not os.path.isabs(target) and path.resolve(strict=True).is_relative_to(top)
        except FileNotFoundError:
            is_inside = path.resolve().is_relative_to(top)
        except (OSError, RuntimeError):
            # The links form a circle.
            is_inside = False
        if not is_inside:
            name = path.relative_to(folder).as_posix()
            raise ModuleLoadError(f"{uri}: '{name}' is a link to {target}, outside of the repository, and is not used")


def hash_files(folder: Path) -> str:
    """Return the hash of a folder for lock files. It covers all names and contents except compiled Python files."""
    total = hashlib.sha256()
    for path, is_link in _walk_files(folder):
        if is_link:
            content = os.fsencode(os.readlink(path))
        elif path.is_file():
            content = path.read_bytes()
        else:
            # The content of a device or a pipe cannot be read.
            content = b"?"
        name = os.fsencode(path.relative_to(folder).as_posix())
        total.update(b"%d %d %d\n%b\n" % (is_link, len(name), len(content), name))
        total.update(content)
    return f"sha256:{total.hexdigest()}"


def remove_compiled(folder: Path) -> None:
    """Remove compiled files, because Python runs them instead of the sources in the hash. Raises OSError."""
    for path, folders, _ in os.walk(folder):
        if COMPILED not in folders:
            continue
        folders.remove(COMPILED)
        cache = Path(path, COMPILED)
        try:
            cache.unlink() if cache.is_symlink() else shutil.rmtree(cache)
        except OSError as error:
            # Another bridge may be removing the files, or importing from them.
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
                raise


def _walk_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield all files and links, with True for a link. Links are not followed.

    They are sorted by the bytes of their names, to have the same order on every machine.
    """
    paths = []
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if Path(path, name).is_symlink()]
        # `os.walk` enters only the folders that remain in this list.
        folders[:] = [name for name in folders if name != COMPILED]
        paths += [Path(path, name) for name in (*files, *links)]
    for file in sorted(paths, key=lambda path: os.fsencode(path.relative_to(folder).as_posix())):
        yield file, file.is_symlink()
