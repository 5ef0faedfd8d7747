"""Builds commands for programs in a bubblewrap sandbox.

There, a process sees system folders and named files read-only, an empty /tmp, and no network, unless the settings allow
more.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._contracts.source import Source
from mcp_bridge._runtime.source_files import contains_home

PROGRAM = "bwrap"
HINT = "Install bubblewrap and allow user namespaces, or remove sandbox from the settings"
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt/local", "/nix/store")
_ETC_NAMES = (
    "alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl",
)  # fmt: skip
"""The visible files and folders of /etc."""
_PROBE_TIMEOUT = 10.0
_MIN_SIZE = 4096
"""The minimum size of a file system in memory in bytes. For bubblewrap, 0 means no limit."""
logger = logging.getLogger("mcp_bridge.isolation")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """The access of a sandboxed process in addition to system folders.

    Attributes:
        network: Whether it has the network.
        files: The readable files of its program or source.
        read: Further readable paths.
        write: Writable paths.
        namespaces: Whether it can create user namespaces, because bubblewrap cannot forbid that here.
    """

    network: bool = False
    files: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    namespaces: bool = False


def is_installed() -> bool:
    """Whether bubblewrap is in PATH."""
    return shutil.which(PROGRAM) is not None


def list_source_files(source: Source, directory: Path) -> tuple[str, ...]:
    """Return the files for the sandbox of a source: its own list of files, else the whole settings folder.

    Raises ConfigError if the settings folder would be needed and contains the user's home folder.
    """
    hint = "Move the settings file and the tools into a folder of their own"
    at_home = contains_home(directory)
    files = source.list_files()
    if files is not None:
        if at_home:
            text = "SECURITY: the settings file of the sandboxed source %r is in your home folder, %s. %s"
            logger.warning(text, source.name, directory, hint)
        return tuple(map(str, files))
    if at_home:
        raise ConfigError(f"the sandbox could read all keys in your home folder, {directory}", hint=hint)
    return (str(directory),)


def warn_of_home(source: str, setting: str, paths: Iterable[str]) -> None:
    """Log a warning for each path of a setting if the user's home folder is in it."""
    for path in paths:
        if contains_home(Path(path)):
            text = "SECURITY: %s gives the sandbox of source %r your home folder (%s) and all keys in it"
            logger.warning(text, setting, source, path)


def build_command(command: list[str], sandbox: SandboxOptions, directory: str, memory: int) -> list[str]:
    """Return the command to run `command` in the sandbox, with the working directory `directory`.

    Files in memory may have `memory` bytes.
    """
    return [PROGRAM, *_list_options(sandbox, directory, memory), "--", *command]


async def probe(sandbox: SandboxOptions, directory: str, memory: int) -> SandboxOptions:
    """Return the strictest options of bubblewrap for this machine. Raises SourceError with its message for none.

    It tries them by starting Python in the sandbox.
    """
    strict = replace(sandbox, namespaces=False)
    lenient = replace(sandbox, namespaces=True)
    if not await _try_options(strict, directory, memory):
        return strict
    problem = await _try_options(lenient, directory, memory)
    if "option --size" in problem:
        raise SourceError(f"bubblewrap before 0.7 cannot limit the size of /tmp in memory ({problem}). Update it")
    if problem:
        raise SourceError(f"bubblewrap cannot create a sandbox here: {problem}. {HINT}")
    logger.warning("bubblewrap cannot forbid user namespaces here (0.8 or later can): `memory` does not limit files")
    return lenient


async def _try_options(sandbox: SandboxOptions, directory: str, memory: int) -> str:
    """Return bubblewrap's problem with these options, or an empty string."""
    command = build_command([sys.executable, "-I", "-S", "-c", ""], sandbox, directory, memory)
    try:
        with anyio.fail_after(_PROBE_TIMEOUT):
            process = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
    except (OSError, TimeoutError) as error:
        return str(error) or "it does not respond"
    if process.returncode == 0:
        return ""
    return process.stderr.decode(errors="replace").strip() or f"exit code {process.returncode}"


def _list_options(sandbox: SandboxOptions, directory: str, memory: int) -> Iterator[str]:
    """Yield the options of bubblewrap, in the order in which it applies them."""
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    # In a user namespace, a tool could mount file systems in memory without a limit.
    if not sandbox.namespaces:
        yield from ("--unshare-user", "--disable-userns")
    if sandbox.network:
        yield "--share-net"
    mounts = _list_mounts(sandbox, directory, memory)
    # These two are file systems in memory without a limit, so they must not be writable.
    read_only = {"/", "/dev"}.difference(sandbox.read, sandbox.write)
    visible_folders = [place for place, mount in mounts.items() if place == directory or mount[0] != "--size"]
    if not _is_below_any(directory, visible_folders):
        # The working directory is not visible otherwise, so it is a folder with only the mounts inside it.
        mounts[directory] = ("--size", str(_MIN_SIZE), "--tmpfs")
        read_only.add(directory)
    # Parents come first, because a later mount hides earlier ones below its place.
    for place, mount in sorted(mounts.items()):
        yield from (*mount, place)
    yield from ("--dir", directory)
    for place in sorted(read_only):
        yield from ("--remount-ro", place)
    yield from ("--chdir", directory)


def _list_mounts(sandbox: SandboxOptions, directory: str, memory: int) -> dict[str, tuple[str, ...]]:
    """Return the options of each mount by its path. Paths in the settings must exist; system paths are optional.

    Each of the two file systems in memory can hold half of `memory`.
    """
    in_memory = ("--size", str(max(memory // 2, _MIN_SIZE)), "--perms", "1777", "--tmpfs")
    etc_paths = [f"/etc/{name}" for name in _ETC_NAMES]
    system_paths = [*_SYSTEM_FOLDERS, *etc_paths, *_list_python_paths()]
    system_paths = [path for path in system_paths if path != "/"]
    mounts: dict[str, tuple[str, ...]] = {path: ("--ro-bind-try", path) for path in system_paths}
    mounts |= {"/proc": ("--proc",), "/dev": ("--dev",)}
    mounts |= dict.fromkeys(("/tmp", "/dev/shm"), in_memory)  # noqa: S108 - private, and empty
    # Files in a writable folder are visible anyway. They are not mounted, because a tool can replace one by a link, and
    # the mount would follow the link.
    source_paths = [path for path in sandbox.files if not _is_below_any(path, sandbox.write)]
    # The folder of the settings stays read-only, even within a writable folder.
    if _is_below_any(directory, (path for path in sandbox.write if path != directory)):
        source_paths.insert(0, directory)
    for path in source_paths:
        if not _is_below_any(path, system_paths):
            mounts[path] = ("--ro-bind", path)
    mounts |= {path: ("--ro-bind", path) for path in sandbox.read}
    return mounts | {path: ("--bind", path) for path in sandbox.write}


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _list_python_paths() -> Iterator[str]:
    """Yield the files of Python, and the import paths except the home folder and, with `python -m`, the current one."""
    for prefix in (sys.prefix, sys.base_prefix):
        if contains_home(Path(prefix)):
            yield from (os.path.join(prefix, name) for name in ("bin", "lib", "lib64", "pyvenv.cfg"))
        else:
            yield prefix.rstrip(os.sep)
    yield os.path.dirname(os.path.realpath(sys.executable))
    named_paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for path in (str(Path(__file__).parent.parent), *sys.path):
        if os.path.isabs(path) and not contains_home(Path(path)) and (path != os.getcwd() or path in named_paths):
            yield path
