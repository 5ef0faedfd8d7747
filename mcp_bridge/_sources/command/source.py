"""CommandSource: the source of type `command`. It publishes commands as tools, and owns their running programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._json_schema.schema_checks import find_schema_problems
from mcp_bridge._runtime import platform, process_group, sandbox
from mcp_bridge._runtime.sandbox import SandboxOptions
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._sources.command.options import CommandOptions
from mcp_bridge._sources.command.tool import SANDBOX_MEMORY, CommandSystem
from mcp_bridge._upstream.trust.credentials import read_credentials


class CommandSource(Source):
    """Publishes each command whose program exists and is executable. Running programs end with the source.

    The environment of the programs may refer to credentials, which are read when the source starts. Relative paths of
    programs start at the folder of the settings.
    """

    Options = CommandOptions
    reads_secrets = True

    def __init__(self, name: str, options: CommandOptions, context: SourceContext) -> None:
        super().__init__(name, options, context)
        directory = context.directory
        root = (directory / Path(options.root).expanduser()).resolve()
        sandbox_options = options.sandbox.to_options(directory) if options.sandbox is not None else None
        self._system = CommandSystem(root=root, env=options.env, sandbox=sandbox_options)
        self._tools = [settings.build_command(tool, self._system) for tool, settings in options.tools.items()]

    @classmethod
    def choose_name(cls, options: CommandOptions) -> str:
        return "commands"

    async def run(self, publish: Publish) -> None:
        """Publish the tools, and run their programs until cancelled.

        Raises SourceError if the root, a credential or the sandbox is unavailable.
        """
        system = self._system
        problems: list[str] = []
        if not system.root.is_dir():
            raise SourceError(f"the folder {str(system.root)!r} does not exist. Change `root`")
        system.env = await to_thread.run_sync(self._read_environment)
        programs = self._find_programs(system.env.get("PATH"), problems)
        if system.sandbox is not None:
            options = self._allow_files(system.sandbox, programs.values())
            system.sandbox = await sandbox.probe(options, str(system.root), SANDBOX_MEMORY)
        async with own_tasks() as system.owner:
            tools = []
            for entry, tool in self._tools:
                if entry.name in programs and not find_schema_problems(entry):
                    tools.append(replace(entry, handler=replace(tool, program=programs[entry.name])))
            publish(Offer(tools=tools, problems=problems))
            await anyio.sleep_forever()

    def _read_environment(self) -> dict[str, str]:
        settings = self._system.env
        credentials = read_credentials(settings, "env", os.environ)
        self.services.hide_secrets([credential.secret for credential in credentials.values()])
        variables = {**settings, **{name: credential.value for name, credential in credentials.items()}}
        return process_group.build_environment("LOGNAME", "SHELL") | variables

    def _find_programs(self, search_path: str | None, problems: list[str]) -> dict[str, str]:
        """Return the paths of programs by the names of their tools.

        Adds a problem for each missing program, and for each invalid schema of a tool.
        """
        programs = {}
        for entry, tool in self._tools:
            problems += find_schema_problems(entry)
            program = tool.program
            path = None
            if platform.system.is_path(program):
                path = self.context.directory / Path(program).expanduser()
            executable = platform.system.locate_program(program if path is None else str(path), search_path)
            if executable is not None:
                programs[entry.name] = os.path.abspath(executable)
                continue
            reason = "was not found. Install it, or give its full path"
            if path is not None and path.is_file():
                reason = "is not executable. Run chmod +x"
            problems.append(f"tool '{entry.name}' is not published: the program {program!r} {reason}")
        return programs

    def _allow_files(self, options: SandboxOptions, programs: Iterable[str]) -> SandboxOptions:
        """Return the options of a sandbox, with permission to read the programs and the root."""
        root = str(self._system.root)
        sandbox.warn_of_home(self.name, "root", [root])
        files: set[str] = set()
        for program in programs:
            # The program may be a symbolic link, and both the link and its target have to be readable.
            files.update((program, os.path.realpath(program)))
        return replace(options, files=(*sorted(files), root))
