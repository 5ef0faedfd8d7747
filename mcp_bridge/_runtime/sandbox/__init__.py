"""Sandboxes for programs: a process sees system folders and named files read-only, and no network.

The settings may allow more. There are two mechanisms, bubblewrap and Landlock. Callers first `probe` which of them
works on this machine, and then build each command with the options that it returns. They start the command below a
supervisor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import anyio

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._contracts.source import Source
from mcp_bridge._runtime.kernel_sandbox.restrictions import get_abi
from mcp_bridge._runtime.sandbox import bubblewrap
from mcp_bridge._runtime.sandbox.bubblewrap import add_filter, build_bubblewrap_command, is_installed, probe_bubblewrap
from mcp_bridge._runtime.sandbox.landlock import build_landlock_command, find_kernel_problem, probe_landlock
from mcp_bridge._runtime.sandbox.options import PACKAGE_FOLDER, SandboxOptions, SandboxType, find_enclosing_folder
from mcp_bridge._runtime.source_files import contains_home

__all__ = [
    "PACKAGE_FOLDER",
    "SandboxOptions",
    "build_command",
    "check_installation",
    "describe_mechanism",
    "find_enclosing_folder",
    "list_source_files",
    "probe",
    "warn_of_home",
]

logger = logging.getLogger("mcp_bridge.isolation")
_HINT = "Install bubblewrap 0.7 or later and allow user namespaces, or use Linux 6.12 or later with Landlock"


def check_installation(sandbox_type: SandboxType) -> None:
    """Check that the program or the kernel for a sandbox of this type is installed. Raises ConfigError."""
    problems = []
    if sandbox_type in ("auto", "bubblewrap"):
        if is_installed():
            return
        problems.append("bubblewrap is not installed")
    if sandbox_type in ("auto", "landlock"):
        problem = find_kernel_problem()
        if not problem:
            return
        problems.append(problem)
    raise ConfigError("; ".join(problems), hint=_HINT)


async def describe_mechanism(sandbox_type: SandboxType) -> str:
    """Return the name and version of the mechanism of a type that `probe` has returned."""
    if sandbox_type == "landlock":
        return f"Landlock (version {get_abi()})"
    process = await anyio.run_process([bubblewrap.PROGRAM, "--version"])
    return process.stdout.decode().strip()


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


async def probe(sandbox: SandboxOptions, directory: str, memory: int) -> SandboxOptions:
    """Return the strictest options for this machine, with the type of the sandbox. It starts a program with them.

    Raises SourceError with all reasons if no sandbox works.
    """
    problems = []
    if sandbox.type in ("auto", "bubblewrap"):
        try:
            options = await probe_bubblewrap(replace(sandbox, type="bubblewrap"), directory, memory)
            logger.info("programs in %s run in a sandbox with bubblewrap", directory)
            return options
        except SourceError as error:
            problems.append(str(error))
    if sandbox.type in ("auto", "landlock"):
        try:
            options = await probe_landlock(replace(sandbox, type="landlock"), directory)
            reason = f", because {problems[0]}" if problems else ""
            logger.info("programs in %s run in a sandbox with Landlock%s", directory, reason)
            return options
        except SourceError as error:
            problems.append(str(error))
    raise SourceError(f"{'; '.join(problems)}. {_HINT}, or remove sandbox from the settings")


def build_command(command: list[str], sandbox: SandboxOptions, directory: str, memory: int) -> list[str]:
    """Return the command to run `command` in the sandbox, with the working directory `directory`.

    Files in memory may have `memory` bytes. `sandbox` are options that `probe` has returned.
    """
    if sandbox.type == "landlock":
        return build_landlock_command(command, sandbox, directory)
    if not sandbox.hosts:
        return add_filter(build_bubblewrap_command(command, sandbox, directory, memory))
    from mcp_bridge._runtime.egress.commands import wrap_command, wrap_sandbox

    command = wrap_command(command, sandbox.hosts)
    command = build_bubblewrap_command(command, sandbox, directory, memory)
    return add_filter(wrap_sandbox(command, sandbox.hosts, sandbox.allow_addresses))
