"""What this machine stores of modules from git: checkouts of commits, and the packages that their modules need.

A checkout is complete and as it was fetched, or absent. Packages that the bridge's environment lacks are installed
beside it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._integrations.amplifier.source.git import GitAddress
from mcp_bridge._runtime.requirements import find_package, parse_requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PIP_TIMEOUT = 600.0  # seconds that pip may take
_CORE = CORE_PACKAGE.replace("_", "-")
# Environment variables that would make pip install to another folder, or not at all.
_TARGET_VARIABLES = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
COMPILED = "__pycache__"
_PARTIAL = ".partial-"
_ABANDONED = 24 * 3600  # seconds after which the remains of an interrupted fetch are deleted
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit of a repository: its `files`, and beside them the packages that its modules need (`sites`)."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def sites(self) -> Path:
        return self.folder / "sites"

    @property
    def is_fetched(self) -> bool:
        return self.files.is_dir()

    def get_module_folder(self, subdirectory: str) -> Path:
        return self.files / subdirectory if subdirectory else self.files


class Checkouts:
    """Checkouts by repository and commit, in a folder that several bridges may share."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder if folder is not None else get_default_folder()).absolute()

    def locate(self, address: GitAddress, commit: str) -> Checkout:
        """The checkout of a commit, whether it has been fetched or not."""
        name = _UNSAFE.sub("-", address.url.partition("://")[2]).strip("-.")[-80:]
        url_hash = hashlib.sha256(address.url.encode()).hexdigest()[:12]
        return Checkout(self.folder / f"{name}-{url_hash}" / commit)

    @contextlib.contextmanager
    def create_temporary_folder(self) -> Iterator[Path]:
        """A temporary folder on the same disk, for the duration of the block. Raises ModuleLoadError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._delete_abandoned()
            temporary = tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self.folder, ignore_cleanup_errors=True)
        except OSError as error:
            raise ModuleLoadError(
                f"{self.folder}: modules cannot be stored there: {error.strerror or error}"
            ) from error
        with temporary as path:
            yield Path(path)

    def _delete_abandoned(self) -> None:
        for folder in self.folder.glob(f"{_PARTIAL}*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(folder, ignore_errors=True)


def get_default_folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("mcp-bridge", appauthor=False) / "modules"


def move_into_place(complete: Path, target: Path, room: Path) -> None:
    """Move a complete folder to its target; what was there moves to `room` and is deleted with it. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        target.rename(Path(tempfile.mkdtemp(dir=room)) / "old")
    complete.rename(target)


def check_links(folder: Path, uri: str) -> None:
    """Raises ModuleLoadError for a symbolic link out of the folder, which would expose or run files elsewhere."""
    top = folder.resolve()
    for path, is_link in _walk_files(folder):
        if not is_link:
            continue
        target = os.readlink(path)
        try:
            is_inside = not os.path.isabs(target) and path.resolve().is_relative_to(top)
        except (OSError, RuntimeError):  # links in a circle
            is_inside = False
        if not is_inside:
            name = path.relative_to(folder).as_posix()
            raise ModuleLoadError(f"{uri}: '{name}' is a link to {target}, outside of the repository, and is not used")


def hash_files(folder: Path) -> str:
    """The hash of a folder's file names and contents, without compiled files. Lock files store it."""
    total = hashlib.sha256()
    for path, is_link in _walk_files(folder):
        content = os.fsencode(os.readlink(path)) if is_link else path.read_bytes() if path.is_file() else b"?"
        name = os.fsencode(path.relative_to(folder).as_posix())
        total.update(b"%d %d %d\n%b\n" % (is_link, len(name), len(content), name))
        total.update(content)
    return f"sha256:{total.hexdigest()}"


def remove_compiled(folder: Path) -> None:
    """Remove compiled files, which the hash leaves out and Python would run instead of the sources. Raises OSError."""
    for path, folders, _ in os.walk(folder):
        if COMPILED not in folders:
            continue
        folders.remove(COMPILED)
        compiled = Path(path, COMPILED)
        try:
            compiled.unlink() if compiled.is_symlink() else shutil.rmtree(compiled)
        except OSError as error:  # another bridge may be removing it, or importing from it
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
                raise


def _walk_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """All files and links in the order of their names; the flag is true for links, which are not followed."""
    found = []
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if Path(path, name).is_symlink()]
        folders[:] = [name for name in folders if name != COMPILED]
        found += [Path(path, name) for name in (*files, *links)]
    for each in sorted(found, key=lambda one: os.fsencode(one.relative_to(folder).as_posix())):
        yield each, each.is_symlink()


def get_packages_folder(sites: Path, subdirectory: str) -> Path:
    """The folder of a module's packages. It depends on the Python version, because several may share a checkout."""
    python = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return sites / python / (quote(subdirectory, safe="") or "top")


def read_requirements(folder: Path, uri: str) -> list[Requirement]:
    """The requirements of a module on this machine, without amplifier-core. Raises ModuleLoadError."""
    with _wrap_errors(uri):
        lines = _read_project(folder).get("dependencies", [])
        if not lines:
            return []

        from packaging.utils import canonicalize_name

        return [item for item in parse_requirements(lines) if canonicalize_name(item.name) != _CORE]


def check_python(folder: Path, uri: str) -> None:
    """Raises ModuleLoadError where a module requires another version of Python."""
    from packaging.specifiers import SpecifierSet

    with _wrap_errors(uri):
        required, version = _read_project(folder).get("requires-python", ""), platform.python_version()
        is_supported = SpecifierSet(required).contains(version, prereleases=True)
    if not is_supported:
        raise ModuleLoadError(f"{uri} is for Python {required}, and the bridge runs on {version}")


def describe_clashes(requirements: Sequence[Requirement], path: Sequence[str]) -> list[str]:
    """The requirements of which another version is installed, which Python would import first, as messages."""
    clashes = []
    for one in requirements:
        found = find_package(one.name, path)
        if found is not None and not one.specifier.contains(found.version, prereleases=True):
            clashes.append(f"{one.name}{one.specifier}, where {found.version} is installed")
    return clashes


def list_installed(site: Path) -> list[str]:
    return sorted(f"{one.name}=={one.version}" for one in distributions(path=[str(site)]))


def has_same_versions(installed: Sequence[str], locked: Sequence[str]) -> bool:
    """Whether each package that is in both lists has the same version in both."""
    ours, theirs = (dict(line.split("==", 1) for line in lines if "==" in line) for lines in (installed, locked))
    return all(theirs.get(name, version) == version for name, version in ours.items())


def install(requirements: Sequence[Requirement], site: Path, uri: str, versions: Sequence[str] = ()) -> None:
    """Install into a new folder, in the versions that `versions` lists. Raises ModuleLoadError where pip fails.

    Only wheels are installed, because their installation runs no code. Packages of the bridge's own environment are
    imported first, so their versions apply here as well.
    """
    urls = [str(one) for one in requirements if one.url]
    names = " ".join(repr(str(one)) for one in requirements)
    if urls:
        raise ModuleLoadError(f"{uri} needs {', '.join(urls)}, which is not fetched. Install it with the bridge")
    if importlib.util.find_spec("pip") is None:
        raise ModuleLoadError(f"{uri} needs {names}, and there is no pip to fetch it. Install it with the bridge")
    site.mkdir(parents=True)
    constraints = site.with_name(f"{site.name}.txt")
    constraints.write_text("\n".join([*_list_environment(), *versions]), "utf-8")
    options = ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--no-compile", "--quiet"]
    _run_pip(["install", *options, "--target", str(site), "--constraint", str(constraints), "--"], requirements, uri)
    for core in (*site.glob(CORE_PACKAGE), *site.glob(f"{CORE_PACKAGE}-*.dist-info")):
        shutil.rmtree(core)  # two copies would not recognise each other's classes


def _run_pip(args: Sequence[str], requirements: Sequence[Requirement], uri: str) -> None:
    names = [str(one) for one in requirements]
    try:
        done = subprocess.run(  # noqa: S603  # parsed requirements, and no shell
            [sys.executable, "-P", "-m", "pip", *args, *names],
            env={name: value for name, value in os.environ.items() if name not in _TARGET_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PIP_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModuleLoadError(f"{uri}: pip took longer than {PIP_TIMEOUT:g} seconds for {', '.join(names)}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        problem = "; ".join(line.removeprefix("ERROR: ").strip() for line in lines)
        raise ModuleLoadError(f"{uri} needs {', '.join(names)}, which pip cannot install: {problem}")


def _read_project(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / "pyproject.toml").read_text("utf-8")
    except FileNotFoundError:
        return {}
    project: dict[str, Any] = tomllib.loads(text).get("project", {})
    return project


@contextlib.contextmanager
def _wrap_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModuleLoadError(f"{uri}: its pyproject.toml cannot be read: {error}") from error


def _list_environment() -> list[str]:
    versions = {one.name: one.version for one in reversed(list(distributions())) if one.name and one.version}
    return [f"{name}=={version}" for name, version in sorted(versions.items())]
