"""CommandTool: the handler of a command, from the arguments of a call to its result."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.handlers import PlannedCall, PlanningHandler
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.sandbox import SandboxOptions
from mcp_bridge._runtime.tasks import TaskOwner
from mcp_bridge._runtime.token_bucket import TokenBucket
from mcp_bridge._sources.command.outputs import MAX_OUTPUT, OutputSettings
from mcp_bridge._sources.command.parameters import CommandParameters
from mcp_bridge._sources.command.program import ProgramOrder, ProgramRun
from mcp_bridge._sources.command.template import ArgumentTemplate, Word, fill_word, select_given

LINE_RATE, LINE_BURST = 20, 50
"""The maximum number of lines of output that are sent to the client: per second on average, and in one burst."""
SANDBOX_MEMORY = 1024**3
"""The maximum number of bytes of the files in memory (/tmp, /dev/shm) of a sandboxed program."""
_MORE_THAN_A_PATH = re.compile(r"[~:@|<>]|[A-Za-z][A-Za-z0-9+.-]+:")
"""The start of text that many programs do not read as a path: home folders (`~`), pathspecs of git (`:`), files of
arguments (`@`), pipes and redirections (`|`, `<`, `>`), and URLs."""
_NO_PATH_PROBLEM = "many programs do not read this as a path in the working directory. Write './' before it"
Streaming = Literal["none", "progress", "log"]


@dataclass(slots=True)
class CommandSystem:
    """The surroundings that all commands of a source share. The source completes them when it starts.

    Attributes:
        root: The folder for all working directories and paths, without symbolic links.
        env: The environment of programs.
        sandbox: The options of the sandbox, or None without a sandbox.
        owner: Owns the tasks of running programs; None before the source has started.
    """

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    sandbox: SandboxOptions | None = None
    owner: TaskOwner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTool(PlanningHandler):
    """The handler of a command.

    Attributes:
        program: The path of the program, which replaces the first word of the template.
        separators: For each parameter with paths, the separators that join the items of its lists.
        directory: The template of the working directory.
        stdin: The template of the standard input, or None if it is empty.
        allow_dash: The parameters whose values may begin with a dash.
    """

    program: str
    template: ArgumentTemplate
    parameters: CommandParameters
    separators: Mapping[str, Set[str]]
    directory: Word
    stdin: Word | None
    allow_dash: Set[str]
    output: OutputSettings
    streaming: Streaming
    system: CommandSystem

    async def __call__(self, data: Any, ctx: RunningCall) -> ToolResult:
        """Run the program and return its result. If the call is cancelled, the program is ended."""
        order = self._build_order(data)
        # There is no call before the source has started.
        assert self.system.owner is not None
        run = ProgramRun(order)
        self.system.owner.spawn(run.run, cancel=run.cancel)
        try:
            with run.lines:
                if self.streaming != "none":
                    await self._stream_lines(run, ctx)
            program_exit = await run.wait_for_exit()
        finally:
            # If the call has been cancelled, the program is still running.
            run.cancel()
        return self.output.build_result(program_exit, order.label, order.directory, self.system.root)

    def plan_call(self, data: Any) -> list[PlannedCall]:
        """Return the command line of a call without running it. Raises InvalidArguments."""
        order = self._build_order(data, is_planned=True)
        return [PlannedCall(shlex.join(order.words), {"cwd": str(order.directory)})]

    async def _stream_lines(self, run: ProgramRun, ctx: RunningCall) -> None:
        budget = TokenBucket(rate=LINE_RATE, burst=LINE_BURST)
        line_number = 0
        async for line in run.lines:
            line_number += 1
            if not budget.take_token():
                continue
            if self.streaming == "progress":
                await ctx.report_progress(line_number, None, line)
            else:
                await ctx.log("info", line, os.path.basename(self.program))

    def _build_order(self, data: Any, *, is_planned: bool = False) -> ProgramOrder:
        values = select_given({**self.parameters.defaults, **(data or {})})
        root = self.system.root
        directory = resolve_inside(root, root, "".join(fill_word(self.directory, values)), "the working directory")
        if not directory.is_dir():
            raise InvalidArguments(["$: the working directory does not exist"])
        for name in self.parameters.paths & values.keys():
            value = values[name]
            for item in value if isinstance(value, list) else [value]:
                self._check_path(name, item, directory)
        words = self.template.fill(values, self.allow_dash, self.parameters.listed_options)
        if not is_planned:
            words[0] = self.program
            if self.system.sandbox is not None:
                words = sandbox.build_command(words, self.system.sandbox, str(directory), SANDBOX_MEMORY)
        return ProgramOrder(
            words=words,
            label=os.path.basename(self.program),
            env=self.system.env,
            directory=directory,
            stdin=None if self.stdin is None else "".join(fill_word(self.stdin, values)),
            limit=MAX_OUTPUT,
            joins_stderr=self.output.stderr == "output",
            streams_output=self.streaming != "none" and self.output.is_text,
            streams_stderr=self.streaming != "none",
        )

    def _check_path(self, name: str, path: str, directory: Path) -> None:
        """Check a path, a value of the parameter `name`. Raises InvalidArguments."""
        # The program would read several paths, of which only the whole is checked here.
        if any(separator in path for separator in self.separators[name]):
            raise InvalidArguments([f"$.{name}: this path has a text that separates paths"])
        if name in self.parameters.dotted_paths:
            path = f"./{path}"
        elif _MORE_THAN_A_PATH.match(path):
            raise InvalidArguments([f"$.{name}: {_NO_PATH_PROBLEM}"])
        resolve_inside(self.system.root, directory, path, f"$.{name}")


def resolve_inside(root: Path, folder: Path, path: str, name: str) -> Path:
    """Return the real path of a path relative to `folder`. Raises InvalidArguments if it leads out of `root`."""
    try:
        real_path = Path(os.path.realpath(folder / path))
        # The two differ if `..` follows a symbolic link: the system follows the link first, but some programs remove
        # `..` with the name before it first.
        normal_path = Path(os.path.realpath(os.path.normpath(folder / path)))
    except (OSError, ValueError) as error:
        # The path has a null character, or a loop of links.
        raise InvalidArguments([f"{name}: this path cannot be used"]) from error
    if not (real_path.is_relative_to(root) and normal_path.is_relative_to(root)):
        raise InvalidArguments([f"{name}: this path leads out of the folder that the tool works in"])
    return real_path
