"""Confinements of workers: a plain process, or one in a sandbox or container.

The rest of the package starts and ends all workers alike, and asks the confinement for what differs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mcp_bridge._isolation import worker_system
from mcp_bridge._runtime import process_group, sandbox
from mcp_bridge._runtime.container import command as container_command
from mcp_bridge._runtime.container import engine as container_engine
from mcp_bridge._runtime.container.command import ContainerOptions
from mcp_bridge._runtime.container.engine import Engine
from mcp_bridge._runtime.sandbox import SandboxOptions
from mcp_bridge._version import DISTRIBUTION, __version__

logger = logging.getLogger("mcp_bridge.isolation")

# With -P, files in the working directory cannot take the place of modules.
WORKER_ARGUMENTS = ("-P", "-m", "mcp_bridge._isolation.worker")
"""The arguments of Python for the program of a worker."""
_PYTHON = "python"
"""The name of Python in images."""
_SUPERVISE = (
    "import sys; from mcp_bridge._runtime.platform.supervisor import supervise_worker as supervise; "
    "supervise(sys.argv[1:], 0)"
)
"""The supervisor in a container. When the command that started a container is killed, the engine does not end the
container, but closes its standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the process of a worker is started.

    Attributes:
        command: The program and its arguments.
        env: All its environment variables.
        cleanup: A command that removes what may be left if the process is killed.
    """

    command: Sequence[str]
    env: Mapping[str, str]
    cleanup: Sequence[str] = ()


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
        """Return how a worker has ended, as the end of a sentence. The exit code is negative for a signal."""
        ...

    def explain_failed_start(self, code: int | None, lines: Sequence[str]) -> str:
        """Return why a worker has ended before its first offer, or an empty text if only its exit code is known.

        `lines` are the last ones on its stderr.
        """
        ...

    def explain_version(self, version: str) -> str:
        """Return why a worker with this version of the package cannot be used, or an empty text."""
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

    def explain_failed_start(self, code: int | None, lines: Sequence[str]) -> str:
        return ""

    def explain_version(self, version: str) -> str:
        return ""


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

    def explain_failed_start(self, code: int | None, lines: Sequence[str]) -> str:
        return ""

    def explain_version(self, version: str) -> str:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainedProcess:
    """A container: the worker can access its image, and what the options allow.

    Attributes:
        options: The options of the container.
        source: The name of the source.
        engine: The engine of this machine, once it is known.
    """

    options: ContainerOptions
    source: str
    engine: Engine | None = None

    async def probe_machine(self, directory: str, memory: int) -> Confinement:
        engine = await container_engine.probe(self.options.program, self.options.image)
        container_command.check_mounts(engine, self.options, directory)
        if engine.has_selinux:
            text = "source %r: SELinux does not confine its containers, because it would hide the files of the source"
            logger.warning(text, self.source)
        return replace(self, engine=engine)

    def build_launch(self, env: Sequence[str], directory: str, memory: int) -> Launch:
        assert self.engine is not None
        variables = {name: os.environ[name] for name in env if name in os.environ}
        name = container_command.make_name()
        command = container_command.build_run_command(
            self.engine,
            self.options,
            [_PYTHON, "-P", "-c", _SUPERVISE, _PYTHON, *WORKER_ARGUMENTS],
            name=name,
            label=self.source,
            directory=directory,
            memory=memory,
            env=variables,
        )
        return Launch(
            command=command,
            env=container_engine.build_environment() | variables,
            cleanup=[self.engine.program, "rm", "--force", "--volumes", name],
        )

    def describe_exit(self, code: int | None, memory: int) -> str:
        text = worker_system.describe_status(code, sandboxed=True)
        # The kernel kills a process of a container that needs more memory, and does not say why.
        return f"{text}, probably because it needed more than {memory >> 20} MiB of memory" if code == 137 else text

    def explain_failed_start(self, code: int | None, lines: Sequence[str]) -> str:
        if any("No module named" in line and "mcp_bridge" in line for line in lines):
            return f"the image {self.options.image} has no {DISTRIBUTION}. Install version {__version__} in it"
        return container_command.explain_failed_start(self.options, _PYTHON, code, lines)

    def explain_version(self, version: str) -> str:
        if version == __version__:
            return ""
        return (
            f"the image {self.options.image} has {DISTRIBUTION} {version}, and the server is {__version__}. "
            "Use an image with the version of the server"
        )
