"""The folder that commits of repositories are kept in: whole and as they were fetched, or not there at all."""

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
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.source.addresses import Address

COMPILED = "__pycache__"
_PARTIAL = ".partial-"
_ABANDONED = 24 * 3600
"""Seconds after which what an interrupted fetch has left is thrown away."""
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Checkout:
    """One commit of a repository: its `files`, and beside them what they need (`sites`)."""

    folder: Path

    @property
    def files(self) -> Path:
        """What was in the commit."""
        return self.folder / "files"

    @property
    def sites(self) -> Path:
        """The packages that modules in it need."""
        return self.folder / "sites"

    @property
    def is_there(self) -> bool:
        """Whether it has been fetched."""
        return self.files.is_dir()

    def below(self, subdirectory: str) -> Path:
        """Where in it a module is."""
        return self.files / subdirectory if subdirectory else self.files


class Checkouts:
    """Commits by repository, in one folder, which several bridges may share."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder if folder is not None else default_folder()).absolute()

    def of(self, address: Address, commit: str) -> Checkout:
        """The place of a commit, whether it is there or not."""
        name = _ODD.sub("-", address.url.partition("://")[2]).strip("-.")[-80:]
        known = hashlib.sha256(address.url.encode()).hexdigest()[:12]
        return Checkout(self.folder / f"{name}-{known}" / commit)

    @contextlib.contextmanager
    def room(self) -> Iterator[Path]:
        """A folder on the same disk that nobody looks into, gone after the block. Raises ModuleLoadError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            made = tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self.folder, ignore_cleanup_errors=True)
        except OSError as error:
            raise ModuleLoadError(f"{self.folder}: modules cannot be kept there: {error.strerror or error}") from error
        with made as room:
            yield Path(room)

    def _sweep(self) -> None:
        """Throw away what was left when a fetch was interrupted by force."""
        for left in self.folder.glob(f"{_PARTIAL}*"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(left, ignore_errors=True)


def default_folder() -> Path:
    """Where modules are kept when the settings do not say."""
    import platformdirs

    return platformdirs.user_data_path("mcp-bridge", appauthor=False) / "modules"


def put(made: Path, place: Path, room: Path) -> None:
    """Move a folder that is complete to its place; what was there goes to the room, and with it. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        place.rename(Path(tempfile.mkdtemp(dir=room)) / "old")
    made.rename(place)


def check_links(folder: Path, uri: str) -> None:
    """Raises ModuleLoadError for a symbolic link out of the folder: it would show, and run, what is elsewhere."""
    top = folder.resolve()
    for path, is_link in _walked(folder):
        if not is_link:
            continue
        target = os.readlink(path)
        try:
            inside = not os.path.isabs(target) and path.resolve().is_relative_to(top)
        except (OSError, RuntimeError):  # links in a circle
            inside = False
        if not inside:
            shown = path.relative_to(folder).as_posix()
            raise ModuleLoadError(f"{uri}: '{shown}' is a link to {target}, out of the repository. It is not used")


def digest(folder: Path) -> str:
    """What identifies the files of a folder, by their names and contents; compiled ones do not count."""
    whole = hashlib.sha256()
    for path, is_link in _walked(folder):
        content = os.fsencode(os.readlink(path)) if is_link else path.read_bytes() if path.is_file() else b"?"
        name = os.fsencode(path.relative_to(folder).as_posix())
        whole.update(b"%d %d %d\n%b\n" % (is_link, len(name), len(content), name))
        whole.update(content)
    return f"sha256:{whole.hexdigest()}"


def without_compiled(folder: Path) -> None:
    """Remove what Python has compiled, which the digest leaves out, and would be run in place of the sources.

    Raises OSError where it cannot be removed.
    """
    for path, folders, _ in os.walk(folder):
        if COMPILED not in folders:
            continue
        folders.remove(COMPILED)
        compiled = Path(path, COMPILED)
        try:
            compiled.unlink() if compiled.is_symlink() else shutil.rmtree(compiled)
        except OSError as error:  # another bridge may be doing the same, or importing from there
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
                raise


def _walked(folder: Path) -> Iterator[tuple[Path, bool]]:
    """All files and links in order of their names, and which of them are links."""
    found = []
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if Path(path, name).is_symlink()]
        folders[:] = [name for name in folders if name != COMPILED]  # links are not followed
        found += [Path(path, name) for name in (*files, *links)]
    for each in sorted(found, key=lambda one: os.fsencode(one.relative_to(folder).as_posix())):
        yield each, each.is_symlink()
