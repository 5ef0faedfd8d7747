"""The bubblewrap sandbox: a worker sees the system and its own folder read-only, an empty /tmp, and no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.isolation.order import SandboxOptions

PROGRAM = "bwrap"
HINT = "Install bubblewrap and allow user namespaces, or remove sandbox from the settings"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt/local", "/nix/store")
_ETC = (
    *("alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl"),
)
_PATIENCE = 10.0


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


def build_command(command: list[str], sandbox: SandboxOptions, directory: str) -> list[str]:
    return [PROGRAM, *_list_options(sandbox, directory), "--", *command]


async def probe(sandbox: SandboxOptions, directory: str) -> None:
    """Raise SourceError with bubblewrap's message if it cannot make this sandbox."""
    command = build_command([sys.executable, "-I", "-S", "-c", ""], sandbox, directory)
    try:
        with anyio.fail_after(_PATIENCE):
            done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        message = done.stderr.decode(errors="replace").strip()
        problem = "" if done.returncode == 0 else message or f"exit code {done.returncode}"
    except (OSError, TimeoutError) as error:
        problem = str(error) or "it does not respond"
    if problem:
        raise SourceError(f"bubblewrap cannot make a sandbox here: {problem}. {HINT}")


def _list_options(sandbox: SandboxOptions, directory: str) -> Iterator[str]:
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if sandbox.network:
        yield "--share-net"
    mounts = _list_mounts(sandbox, directory)
    for place, mount in sorted(mounts.items()):  # parents first: a later mount hides what is below it
        yield from (*mount, place)
    yield from ("--chdir", directory)


def _list_mounts(sandbox: SandboxOptions, directory: str) -> dict[str, tuple[str, ...]]:
    """Return the options of each mount by its path. Paths that the settings name have to exist, system paths may."""
    python = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    usual = (*_SYSTEM, *(f"/etc/{name}" for name in _ETC), *python, *_list_import_paths())
    mounts: dict[str, tuple[str, ...]] = {path: ("--ro-bind-try", path) for path in usual if path != "/"}
    mounts |= {"/proc": ("--proc",), "/dev": ("--dev",), "/tmp": ("--tmpfs",)}  # noqa: S108 - private, and empty
    mounts |= {path: ("--ro-bind", path) for path in (directory, *sandbox.read)}
    return mounts | {path: ("--bind", path) for path in sandbox.write}


def _list_import_paths() -> Iterator[str]:
    """Yield where Python finds modules, but not the current folder, which `python -m` adds."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for path in (str(Path(__file__).parent.parent), *sys.path):
        if os.path.isabs(path) and (path != os.getcwd() or path in named):
            yield path
