"""The bubblewrap sandbox: a worker sees the system and its own folder read-only, an empty /tmp, and no network."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
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
_SMALLEST = 4096
"""The smallest size of a file system in memory; 0 would be none."""
logger = logging.getLogger("mcp_bridge.isolation")


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


def build_command(command: list[str], sandbox: SandboxOptions, directory: str, memory: int) -> list[str]:
    return [PROGRAM, *_list_options(sandbox, directory, memory), "--", *command]


async def probe(sandbox: SandboxOptions, directory: str, memory: int) -> SandboxOptions:
    """Return the options with which bubblewrap makes this sandbox. Raises SourceError with its message if it cannot."""
    strict, lenient = replace(sandbox, namespaces=False), replace(sandbox, namespaces=True)
    if not await _try_options(strict, directory, memory):
        return strict
    problem = await _try_options(lenient, directory, memory)
    if "option --size" in problem:
        raise SourceError(f"bubblewrap is older than 0.7 and cannot limit the memory of files ({problem}). Update it")
    if problem:
        raise SourceError(f"bubblewrap cannot make a sandbox here: {problem}. {HINT}")
    logger.warning("bubblewrap cannot forbid namespaces here (0.8 or later can): tools may exceed `memory` by files")
    return lenient


async def _try_options(sandbox: SandboxOptions, directory: str, memory: int) -> str:
    """Return bubblewrap's problem with these options, or an empty string."""
    command = build_command([sys.executable, "-I", "-S", "-c", ""], sandbox, directory, memory)
    try:
        with anyio.fail_after(_PATIENCE):
            done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
    except (OSError, TimeoutError) as error:
        return str(error) or "it does not respond"
    message = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else message or f"exit code {done.returncode}"


def _list_options(sandbox: SandboxOptions, directory: str, memory: int) -> Iterator[str]:
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if not sandbox.namespaces:  # in one of its own, a tool could mount file systems in memory without a limit
        yield from ("--unshare-user", "--disable-userns")
    if sandbox.network:
        yield "--share-net"
    mounts = _list_mounts(sandbox, directory, memory)
    for place, mount in sorted(mounts.items()):  # parents first: a later mount hides what is below it
        yield from (*mount, place)
    yield from ("--dir", directory)
    for place in {"/", "/dev"}.difference(sandbox.read, sandbox.write):  # bubblewrap makes both in memory, unlimited
        yield from ("--remount-ro", place)
    yield from ("--chdir", directory)


def _list_mounts(sandbox: SandboxOptions, directory: str, memory: int) -> dict[str, tuple[str, ...]]:
    """Return the options of each mount by its path. Paths that the settings name have to exist, system paths may.

    What is written to the two file systems in memory counts as `memory`, half of it each.
    """
    in_memory = ("--size", str(max(memory // 2, _SMALLEST)), "--perms", "1777", "--tmpfs")
    python = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    usual = (*_SYSTEM, *(f"/etc/{name}" for name in _ETC), *python, *_list_import_paths())
    mounts: dict[str, tuple[str, ...]] = {path: ("--ro-bind-try", path) for path in usual if path != "/"}
    mounts |= {"/proc": ("--proc",), "/dev": ("--dev",)}
    mounts |= dict.fromkeys(("/tmp", "/dev/shm"), in_memory)  # noqa: S108 - private, and empty
    mounts |= {path: ("--ro-bind", path) for path in (directory, *sandbox.read)}
    return mounts | {path: ("--bind", path) for path in sandbox.write}


def _list_import_paths() -> Iterator[str]:
    """Yield where Python finds modules, but not the current folder, which `python -m` adds."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for path in (str(Path(__file__).parent.parent), *sys.path):
        if os.path.isabs(path) and (path != os.getcwd() or path in named):
            yield path
