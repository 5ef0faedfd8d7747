"""Builds commands for programs in a sandbox of the Linux kernel: Landlock, and a filter of system calls (seccomp).

It needs neither a program nor user namespaces. The supervisor applies the restrictions to the command. A process keeps
its view of the files, the processes and the network of the machine, but cannot use them. It has a private folder for
temporary files, which the variable TMPDIR names.
"""

# Type checkers for other systems read this file, too.
# mypy: disable-error-code="unreachable"

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.kernel_sandbox import seccomp
from mcp_bridge._runtime.kernel_sandbox.restrictions import FEATURES, get_abi
from mcp_bridge._runtime.platform.supervisor_script import LANDLOCK
from mcp_bridge._runtime.sandbox import trial
from mcp_bridge._runtime.sandbox.options import SandboxOptions, is_below_any, list_system_paths
from mcp_bridge._runtime.sandbox.trial import find_start_problem
from mcp_bridge._runtime.source_files import contains_home


def find_kernel_problem() -> str:
    """Return what this kernel lacks for a sandbox, or an empty text."""
    if sys.platform != "linux":
        return "Landlock is a part of Linux"
    if not seccomp.is_supported():
        return "the sandbox with Landlock requires a 64-bit processor of x86 or ARM"
    abi = get_abi()
    if abi == 0:
        return "the kernel has no Landlock (it needs Linux 6.12), or does not enable it, or this container forbids it"
    missing_features = [text for version, text in FEATURES.items() if version > abi]
    if missing_features:
        return f"Landlock of this kernel (version {abi}) cannot restrict {', '.join(missing_features)}"
    return ""


def find_settings_problem(sandbox: SandboxOptions) -> str:
    """Return what these settings require and Landlock cannot do, or an empty text. Its rules can only add rights."""
    if sandbox.hosts:
        return "Landlock cannot limit the network to a list of hosts"
    for path in sandbox.read:
        if is_below_any(path, sandbox.write):
            return f"Landlock cannot keep {path} read-only within a writable folder. Make other folders writable"
    for folder in sandbox.listed:
        if contains_home(Path(folder)) and not is_below_any(folder, (*sandbox.files, *sandbox.read, *sandbox.write)):
            return f"Landlock cannot hide the names of files in your home folder, {folder}. Move the settings file"
    return ""


async def probe_landlock(sandbox: SandboxOptions, directory: str) -> SandboxOptions:
    """Return the options if they work on this machine. Raises SourceError otherwise."""
    problem = find_kernel_problem() or find_settings_problem(sandbox)
    if problem:
        raise SourceError(problem)
    problem = await find_start_problem(build_landlock_command(trial.PROGRAM, sandbox, directory))
    if problem:
        raise SourceError(f"Landlock cannot create a sandbox here: {problem}")
    return sandbox


def build_landlock_command(command: list[str], sandbox: SandboxOptions, directory: str) -> list[str]:
    """Return the command to run `command` in the sandbox. Only a supervisor can execute it."""
    home = os.path.expanduser("~")

    def remove_writable(paths: Iterable[str]) -> list[str]:
        # A tool can replace files in a writable folder by links, which a rule would follow.
        return [path for path in paths if not is_below_any(path, sandbox.write)]

    order = {
        "directory": directory,
        "network": sandbox.network,
        "keeps_home": any(is_below_any(path, [home]) for path in (*sandbox.read, *sandbox.write)),
        "system": remove_writable(list_system_paths()),
        "files": remove_writable(sandbox.files),
        "list": remove_writable(sandbox.listed),
        "read": sandbox.read,
        "write": sandbox.write,
    }
    return [LANDLOCK, json.dumps(order), *command]
