"""Sandboxes for programs: a process sees system folders and named files read-only, and no network.

The settings may allow more. Callers first `probe` the sandbox on this machine, and then build each command with the
options that it returns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import Source
from mcp_bridge._runtime.sandbox import bubblewrap
from mcp_bridge._runtime.sandbox.options import SandboxOptions
from mcp_bridge._runtime.source_files import contains_home

__all__ = ["SandboxOptions", "build_command", "check_installation", "list_source_files", "probe", "warn_of_home"]

logger = logging.getLogger("mcp_bridge.isolation")


def check_installation() -> None:
    """Check that the program of the sandbox is installed. Raises ConfigError."""
    if not bubblewrap.is_installed():
        raise ConfigError("bubblewrap is not installed", hint=bubblewrap.HINT)


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
    """Return the strictest options for this machine, by starting Python with them. Raises SourceError if none works."""
    return await bubblewrap.probe(sandbox, directory, memory)


def build_command(command: list[str], sandbox: SandboxOptions, directory: str, memory: int) -> list[str]:
    """Return the command to run `command` in the sandbox, with the working directory `directory`.

    Files in memory may have `memory` bytes.
    """
    if not sandbox.hosts:
        return bubblewrap.build_bubblewrap_command(command, sandbox, directory, memory)
    from mcp_bridge._runtime.egress.commands import wrap_command, wrap_sandbox

    command = wrap_command(command, sandbox.hosts)
    command = bubblewrap.build_bubblewrap_command(command, sandbox, directory, memory)
    return wrap_sandbox(command, sandbox.hosts, sandbox.allow_addresses)
