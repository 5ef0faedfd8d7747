"""The access of a sandboxed process (SandboxOptions), and the files that every mechanism makes readable."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_bridge._runtime.source_files import contains_home

_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt/local", "/nix/store")
_ETC_NAMES = (
    "alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl",
)  # fmt: skip
"""The visible files and folders of /etc."""
SandboxType = Literal["auto", "bubblewrap", "landlock"]
PACKAGE_FOLDER = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """The access of a sandboxed process in addition to system folders.

    Attributes:
        type: The mechanism, or `auto` for the first one that works on this machine.
        network: Whether it has the whole network.
        hosts: The hosts that it can reach without the network, as `egress.hosts.parse_rule` reads them.
        allow_addresses: Networks of addresses that these hosts may have, in addition to public ones.
        files: The readable files of its program or source.
        listed: Folders in which the program looks for its files, so it may have to read their names.
        read: Further readable paths without links, which are read-only even within a writable folder.
        write: Writable paths without links.
        namespaces: Whether only the filter forbids user namespaces, because bubblewrap cannot do it here.
    """

    type: SandboxType = "auto"
    network: bool = False
    hosts: tuple[str, ...] = ()
    allow_addresses: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    namespaces: bool = False


def list_system_paths() -> list[str]:
    """Return the paths of the system and of Python, which every sandboxed process can read. Some may not exist."""
    etc_paths = [f"/etc/{name}" for name in _ETC_NAMES]
    paths = [*_SYSTEM_FOLDERS, *etc_paths, *_list_python_paths()]
    return [path for path in paths if path != "/"]


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders, or below one."""
    return any(Path(path).is_relative_to(folder) for folder in folders)


def find_enclosing_folder(path: str, folders: Iterable[str]) -> str:
    """Return the innermost of the folders that contain a path and are not the path itself, or an empty text."""
    enclosing_folders = [folder for folder in folders if folder != path and is_below_any(path, [folder])]
    return max(enclosing_folders, key=len, default="")


def _list_python_paths() -> Iterator[str]:
    """Yield the files of Python, and the import paths except the home folder and, with `python -m`, the current one."""
    for prefix in (sys.prefix, sys.base_prefix):
        if contains_home(Path(prefix)):
            yield from (os.path.join(prefix, name) for name in ("bin", "lib", "lib64", "pyvenv.cfg"))
        else:
            yield prefix.rstrip(os.sep)
    yield os.path.dirname(os.path.realpath(sys.executable))
    named_paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for path in (str(PACKAGE_FOLDER), *sys.path):
        if os.path.isabs(path) and not contains_home(Path(path)) and (path != os.getcwd() or path in named_paths):
            yield path
