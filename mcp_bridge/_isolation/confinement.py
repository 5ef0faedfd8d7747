"""Confinements of workers: a plain process, or one in a sandbox.

The rest of the package starts and ends all workers alike, and asks the confinement for what differs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mcp_bridge._isolation import worker_system
from mcp_bridge._runtime import process_group, sandbox
from mcp_bridge._runtime.sandbox import SandboxOptions

# With -P, files in the working directory cannot take the place of modules.
WORKER_ARGUMENTS = ("-P", "-m", "mcp_bridge._isolation.worker")
"""The arguments of Python for the program of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the process of a worker is started.

    Attributes:
        command: The program and its arguments.
        env: All its environment variables.
    """

    command: Sequence[str]
    env: Mapping[str, str]


class Confinement(Protocol):
    """Decides what the process of a worker can access."""

    async def probe_machine(self, directory: str, memory: int) -> Confinement:
        """Return the confinement to use on this machine. Raises SourceError if there is none."""
        ...

    def build_launch(self, env: Sequence[str], directory: str, memory: int) -> Launch:
        """Return how a worker is started.

        Args:
            env: The names of its environment variables, in addition to the usual ones.
            directory: The folder of the settings.
            memory: The maximum number of bytes of its memory.
        """
        ...

    def describe_exit(self, code: int | None, memory: int) -> str:
        """Return the end of a sentence about an exit code, which is negative for a signal."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainProcess:
    """No confinement: the worker has the rights of the bridge.

    Attributes:
        command: The program and its arguments.
    """

    command: Sequence[str] = (sys.executable, *WORKER_ARGUMENTS)

    async def probe_machine(self, directory: str, memory: int) -> Confinement:
        return self

    def build_launch(self, env: Sequence[str], directory: str, memory: int) -> Launch:
        return Launch(command=self.command, env=process_group.build_environment("PYTHONPATH", *env))

    def describe_exit(self, code: int | None, memory: int) -> str:
        return worker_system.describe_status(code, sandboxed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxedProcess:
    """A sandbox: the worker can access what the options allow."""

    options: SandboxOptions

    async def probe_machine(self, directory: str, memory: int) -> Confinement:
        return replace(self, options=await sandbox.probe(self.options, directory, memory))

    def build_launch(self, env: Sequence[str], directory: str, memory: int) -> Launch:
        launch = PlainProcess().build_launch(env, directory, memory)
        command = sandbox.build_command(list(launch.command), self.options, directory, memory)
        return replace(launch, command=command)

    def describe_exit(self, code: int | None, memory: int) -> str:
        return worker_system.describe_status(code, sandboxed=True)
