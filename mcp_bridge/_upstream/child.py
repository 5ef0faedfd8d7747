"""Starts an MCP server as a child process, and carries messages over its standard streams (transports, "stdio")."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._protocol.peer.line_writer import MessageWriter
from mcp_bridge._runtime import process_group
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.supervised_process import OUTPUT_TIMEOUT, SupervisedProcess, start_process
from mcp_bridge._upstream.messages import (
    MAX_MESSAGE,
    FaultListener,
    MessageReader,
    Receiver,
    find_request,
    make_failure,
)
from mcp_bridge._upstream.session import UpstreamChannel

if TYPE_CHECKING:
    from mcp_bridge._runtime.sandbox import SandboxOptions

TERMINATION_TIMEOUT = 1.0
"""Seconds between SIGTERM and SIGKILL."""
MAX_BUFFERED_INPUT = 32 * 1024 * 1024
"""The maximum number of bytes that wait for a server to read its input. With more, the connection is ended."""
MAX_DROPPED = 4 * MAX_MESSAGE
"""The number of dropped bytes after which a line counts as endless, and the connection is ended."""
SANDBOX_MEMORY = 1024**3
"""The maximum number of bytes of the files in memory (/tmp, /dev/shm) of a sandboxed server."""
EXIT_NOT_FOUND = 127
"""The exit code of the supervisor if it cannot execute the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """The command that starts a server.

    Attributes:
        env: Environment variables in addition to the usual ones.
        directory: The working directory.
        sandbox: If there is one, the server can access only its program, the paths in `args`, and what the sandbox
            allows.
        name: The label of each line the server prints to stderr.
        inherits: Whether the environment has the usual variables of this process, too.
        on_print: Gets what the server prints to stderr, instead of the stderr of this process.
        on_fault: Gets everything but valid messages.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    directory: Path
    sandbox: SandboxOptions | None = None
    name: str = ""
    inherits: bool = True
    on_print: Callable[[bytes], None] | None = None
    on_fault: FaultListener | None = None

    @property
    def label(self) -> str:
        """The program, for messages. Arguments may contain secrets."""
        return self.command

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[UpstreamChannel]:
        """Start the server and yield its channel. Raises SourceError if it cannot be started.

        At the end of the block, the process is ended, with all processes it has started.

        Args:
            receive: Gets the messages of the server.
            on_end: Gets the reason once there will be no further messages.
        """
        environment = dict(self.env)
        if self.inherits:
            environment = process_group.build_environment("LOGNAME", "SHELL") | environment
        command = [self._find_program(environment.get("PATH", os.defpath)), *self.args]
        if not self.directory.is_dir():
            raise SourceError(f"the working directory {str(self.directory)!r} does not exist")
        if self.sandbox is not None:
            command = await self._build_sandboxed_command(self.sandbox, command)
        try:
            process = await start_process(
                command,
                label=self.name or os.path.basename(self.command),
                env=environment,
                directory=self.directory,
                grace=TERMINATION_TIMEOUT,
                on_print=self.on_print,
            )
        except (OSError, ValueError) as error:
            raise SourceError(f"{self.command!r} cannot be started: {error}") from error
        child = Child(process, MessageReader(self.label, self.on_fault), receive)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.run, on_end)
            try:
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await process.end()
                tasks.cancel_scope.cancel()

    def _find_program(self, search_path: str) -> str:
        """Return the path of the program. Raises SourceError."""
        command = self.command
        if system.is_path(command):
            command = str(self.directory / command)
        program = system.locate_program(command, search_path)
        if program is not None:
            return program
        if " " in self.command.strip():
            hint = "Write the name of the program alone in `command`, and its arguments in `args`"
        else:
            hint = "Install it, or give its full path"
        raise SourceError(f"the program {self.command!r} was not found. {hint}")

    async def _build_sandboxed_command(self, options: SandboxOptions, command: list[str]) -> list[str]:
        """Return the command to run the server in a sandbox. Raises SourceError if no sandbox is available."""
        from mcp_bridge._runtime import sandbox

        directory = str(self.directory.resolve())
        options = replace(options, files=self._list_named_files(command[0]))
        options = await sandbox.probe(options, directory, SANDBOX_MEMORY)
        return sandbox.build_command(command, options, directory, SANDBOX_MEMORY)

    def _list_named_files(self, program: str) -> tuple[str, ...]:
        paths = [Path(program), Path(program).resolve()]
        for argument in self.args:
            if argument and not argument.startswith("-"):
                paths.append(self.directory / argument)
        return tuple(os.path.abspath(path) for path in paths if path.exists())


class Child:
    """The channel to a server in a child process: each line of its stdin and stdout is a message."""

    def __init__(self, process: SupervisedProcess, reader: MessageReader, receive: Receiver) -> None:
        self._process = process
        self._reader = reader
        self._receive = receive
        self._lines = LineSplitter(MAX_MESSAGE)
        self._problem = ""
        self.stream = MessageWriter(process.input, limit=MAX_BUFFERED_INPUT)

    def adopt_version(self, version: str) -> None:
        """Do nothing: a pipe carries the messages of all versions."""

    async def run(self, on_end: Callable[[str], None]) -> None:
        """Carry messages until the server closes its output or ends."""
        await self._process.run(self._read_messages, self.stream.run, self._stop_without_reader)
        code = self._process.returncode
        if code is None:
            on_end(self._problem or "the server has closed its output")
        elif code == EXIT_NOT_FOUND:
            on_end("the server could not be executed (exit code 127)")
        elif code < 0:
            on_end(f"the server was ended by signal {-code}")
        else:
            on_end(f"the server ended with exit code {code}")

    async def _stop_without_reader(self) -> None:
        """End the connection if the server no longer reads its input, because calls would wait in vain."""
        await self.stream.lost.wait()
        await self._process.wait_for_exit(OUTPUT_TIMEOUT)
        self._stop("the server does not read its input")

    def _stop(self, problem: str) -> None:
        """Terminate the process. A server stuck in a write would not notice the end of its input."""
        self._problem = self._problem or problem
        self._process.terminate()

    async def _read_messages(self) -> None:
        budget = self._reader.budget
        await self._process.output.read_all(self._accept_bytes, lambda: budget.debt > 0, budget.wait_while_empty)

    def _accept_bytes(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            message = self._reader.read_message(line)
            if line is None:
                request_id = find_request(self._lines.fragments)
                if request_id is not None:
                    problem = f"the response is larger than {MAX_MESSAGE // 2**20} MB, and was dropped"
                    message = make_failure(request_id, problem)
            if message is not None and not self._receive(message, None):
                self._reader.budget.charge(1)
        if self._lines.skipped > MAX_DROPPED:
            self._stop("the server has sent a line without an end")
