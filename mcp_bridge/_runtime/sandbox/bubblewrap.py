"""Builds commands for programs in a bubblewrap sandbox.

There, a process sees system folders and named files read-only, an empty /tmp, and no network, unless the settings allow
more. A filter forbids system calls that bubblewrap does not restrict, if it knows the processor.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.kernel_sandbox import seccomp
from mcp_bridge._runtime.platform.supervisor_script import FILTER
from mcp_bridge._runtime.sandbox import trial
from mcp_bridge._runtime.sandbox.options import SandboxOptions, find_enclosing_folder, is_below_any, list_system_paths
from mcp_bridge._runtime.sandbox.trial import find_start_problem

PROGRAM = "bwrap"
_MIN_SIZE = 4096
"""The minimum size of a file system in memory in bytes. For bubblewrap, 0 means no limit."""
logger = logging.getLogger("mcp_bridge.isolation")


def is_installed() -> bool:
    """Whether bubblewrap is in PATH."""
    return shutil.which(PROGRAM) is not None


def build_bubblewrap_command(command: list[str], sandbox: SandboxOptions, directory: str, memory: int) -> list[str]:
    """Return the command to run `command` in the sandbox, with the working directory `directory`.

    Files in memory may have `memory` bytes.
    """
    return [PROGRAM, *_list_options(sandbox, directory, memory), "--", *command]


def add_filter(command: list[str]) -> list[str]:
    """Return the command for a supervisor that provides the filter which `command`, with bubblewrap, reads."""
    if seccomp.is_supported():
        return [FILTER, *command]
    return command


async def probe_bubblewrap(sandbox: SandboxOptions, directory: str, memory: int) -> SandboxOptions:
    """Return the strictest options of bubblewrap for this machine. Raises SourceError with its message if none work.

    It tries them by starting Python in the sandbox.
    """
    settings_problem = _find_settings_problem(sandbox)
    if settings_problem:
        raise SourceError(settings_problem)
    strict = replace(sandbox, namespaces=False)
    lenient = replace(sandbox, namespaces=True)
    if not await _try_options(strict, directory, memory):
        return strict
    problem = await _try_options(lenient, directory, memory)
    if "option --size" in problem:
        raise SourceError(f"bubblewrap before 0.7 cannot limit the size of /tmp in memory ({problem})")
    if problem:
        raise SourceError(f"bubblewrap cannot create a sandbox here: {problem}")
    if not seccomp.is_supported():
        logger.warning(
            "bubblewrap cannot forbid user namespaces here (0.8 or later can, except in some containers): tools can "
            "mount file systems in memory, which `memory` does not limit"
        )
    return lenient


def _find_settings_problem(sandbox: SandboxOptions) -> str:
    """Return which path a tool could replace by a link, or an empty text. The mount of a later sandbox would follow it.

    A mounted path cannot be replaced. But a folder between it and the writable folder can be replaced.
    """
    readable_paths = (*list_system_paths(), *sandbox.read)
    for path in readable_paths:
        folder = find_enclosing_folder(path, (*readable_paths, *sandbox.write))
        if folder in sandbox.write and os.path.dirname(path) != folder:
            return (
                f"bubblewrap cannot protect {path}: it is in the writable folder {folder}, so the tools could replace "
                "it by a link. Make other folders writable"
            )
    return ""


async def _try_options(sandbox: SandboxOptions, directory: str, memory: int) -> str:
    """Return bubblewrap's problem with these options, or an empty string."""
    if not is_installed():
        return "it is not installed"
    command = build_bubblewrap_command(trial.PROGRAM, sandbox, directory, memory)
    return await find_start_problem(add_filter(command))


def _list_options(sandbox: SandboxOptions, directory: str, memory: int) -> Iterator[str]:
    """Yield the options of bubblewrap, in the order in which it applies them."""
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    # In a user namespace, a tool could mount file systems in memory without a limit.
    if not sandbox.namespaces:
        yield from ("--unshare-user", "--disable-userns")
    if sandbox.network:
        yield "--share-net"
    if seccomp.is_supported():
        yield from ("--seccomp", str(seccomp.DESCRIPTOR))
    mounts = _list_mounts(sandbox, directory, memory)
    # These two are file systems in memory without a limit, so they must not be writable.
    read_only = {"/", "/dev"}.difference(sandbox.read, sandbox.write)
    visible_folders = [place for place, mount in mounts.items() if place == directory or mount[0] != "--size"]
    if not is_below_any(directory, visible_folders):
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
    system_paths = list_system_paths()
    mounts: dict[str, tuple[str, ...]] = {path: ("--ro-bind-try", path) for path in system_paths}
    mounts |= {"/proc": ("--proc",), "/dev": ("--dev",)}
    mounts |= dict.fromkeys(("/tmp", "/dev/shm"), in_memory)  # noqa: S108 - private, and empty
    # Files in a writable folder are visible anyway. They are not mounted, because a tool can replace one by a link, and
    # the mount would follow the link.
    source_paths = [path for path in sandbox.files if not is_below_any(path, sandbox.write)]
    for path in source_paths:
        if not is_below_any(path, system_paths):
            mounts[path] = ("--ro-bind", path)
    mounts |= {path: ("--ro-bind", path) for path in sandbox.read}
    return mounts | {path: ("--bind", path) for path in sandbox.write}
