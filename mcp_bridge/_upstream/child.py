"""Starts an MCP server as a child process, and carries messages over its standard streams (transports, "stdio")."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import Process

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._protocol.peer.line_writer import MessageWriter
from mcp_bridge._runtime import child_output, process_group
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.stdio_descriptors import Descriptor
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

logger = logging.getLogger("mcp_bridge.upstream")

INPUT_TIMEOUT = 2.0
"""Seconds that a server has to end by itself after the end of its input."""
TERMINATION_TIMEOUT = 1.0
"""Seconds between SIGTERM and SIGKILL."""
OUTPUT_TIMEOUT = 0.5
"""Seconds in which output is still read after the process has ended."""
DISCARD_INTERVAL = 0.005
"""Seconds between two reads of output that is discarded. Some servers write as fast as they are read."""
KILL_TIMEOUT = INPUT_TIMEOUT + TERMINATION_TIMEOUT + 1.5
"""Seconds after which the process group is killed, if the supervisor has not ended it."""
MAX_BUFFERED_INPUT = 32 * 1024 * 1024
"""Bytes that wait for a server that does not read its input. With more, the connection is ended."""
MAX_DROPPED = 4 * MAX_MESSAGE
"""Bytes of one line after which a line counts as endless, and the connection is ended."""
SANDBOX_MEMORY = 1024**3
"""Bytes that the files in memory (/tmp, /dev/shm) of a sandboxed server may have."""
EXIT_NOT_FOUND = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """The command that starts a server. Its environment has the usual variables, and those of `env`.

    With a `sandbox`, the server can access its program, the paths in `args`, and what the sandbox allows. `name` is put
    before each line that the server prints to stderr. `inherits` is False for an environment of exactly `env`.
    `on_print` gets what the server prints to stderr instead, and `on_fault` what it sends instead of messages.
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
        """Start the server and yield its process; `receive` gets its messages, and `on_end` why there will be no more.

        At the end of the block the process is ended, with all that it has started: by the end of its input, then by
        SIGTERM and SIGKILL. Raises SourceError if it cannot be started.
        """
        environment = process_group.build_environment("LOGNAME", "SHELL") if self.inherits else {}
        environment |= self.env
        path = environment.get("PATH", os.defpath)
        program = self._find_file() if "/" in self.command else shutil.which(self.command, path=path)
        if program is None:
            hint = "Install it, or give its full path"
            if " " in self.command.strip():
                hint = "Write the name of the program alone in `command`, and its arguments in `args`"
            raise SourceError(f"the program {self.command!r} was not found. {hint}")
        if not self.directory.is_dir():
            raise SourceError(f"the working directory {str(self.directory)!r} does not exist")
        command = [program, *self.args]
        if self.sandbox is not None:
            command = await self._build_sandboxed_command(self.sandbox, command)
        command = process_group.wrap_command(command, grace=TERMINATION_TIMEOUT)
        (stdin, sink), (source, stdout) = os.pipe(), os.pipe()
        try:
            with anyio.CancelScope(shield=True):  # a process whose start is cancelled would have no owner
                process = await anyio.open_process(
                    command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=child_output.STDERR,
                    env=environment,
                    cwd=self.directory,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:  # ValueError: an argument or a variable has a null character
            os.close(source)
            os.close(sink)
            raise SourceError(f"{self.command!r} cannot be started: {error}") from error
        finally:
            os.close(stdin)
            os.close(stdout)
        child = Child(self, process, source, sink, receive)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.run, on_end)
            try:
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await child.end()
                tasks.cancel_scope.cancel()

    async def _build_sandboxed_command(self, options: SandboxOptions, command: list[str]) -> list[str]:
        """Return the command in its sandbox. Raises SourceError if there can be none."""
        from mcp_bridge._runtime import sandbox

        directory = str(self.directory.resolve())
        options = replace(options, files=self._list_named_files(command[0]))
        options = await sandbox.probe(options, directory, SANDBOX_MEMORY)
        return sandbox.build_command(command, options, directory, SANDBOX_MEMORY)

    def _list_named_files(self, program: str) -> tuple[str, ...]:
        arguments = (self.directory / argument for argument in self.args if argument and not argument.startswith("-"))
        paths = (Path(program), Path(program).resolve(), *arguments)
        return tuple(os.path.abspath(path) for path in paths if path.exists())

    def _find_file(self) -> str | None:
        path = self.directory / self.command
        return str(path) if os.access(path, os.X_OK) and path.is_file() else None


class Child:
    """A server that runs as a child process. `stream` carries messages to it."""

    def __init__(self, command: LaunchCommand, process: Process, source: int, sink: int, receive: Receiver) -> None:
        self._process = process
        self._output = child_output.LineLabeller(command.name or os.path.basename(command.command))
        self._on_print = command.on_print
        self._source = source
        self._sink = sink
        self._receive = receive
        self._lines = LineSplitter(MAX_MESSAGE)
        self._reader = MessageReader(command.label, command.on_fault)
        self._carrying = anyio.CancelScope()
        self._carried = anyio.Event()
        self._problem = ""
        self.stream = MessageWriter(Descriptor(sink), limit=MAX_BUFFERED_INPUT)

    def adopt_version(self, version: str) -> None:
        """Do nothing: a pipe carries the messages of all versions."""

    async def run(self, on_end: Callable[[str], None]) -> None:
        """Carry messages until the server closes its output or ends."""
        try:
            with self._carrying:
                await self._carry_messages()
        finally:
            self._carried.set()
        on_end(self._describe_end())

    async def _carry_messages(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.stream.run)
            tasks.start_soon(self._stop_without_reader)
            tasks.start_soon(self._stop_after_process)
            tasks.start_soon(self._relay_output)
            with contextlib.suppress(OSError):
                await Descriptor(self._source).read_all(self._accept_bytes, self._is_flooded, self._slow_down)
            with anyio.move_on_after(OUTPUT_TIMEOUT):
                await self._process.wait()
            tasks.cancel_scope.cancel()

    async def end(self) -> None:
        """End the process: close its input, wait, and kill what is left."""
        self._carrying.cancel()
        await self._carried.wait()
        os.close(self._sink)
        if self._problem:  # it may be stuck in a write, and never notice the end of its input
            process_group.terminate_supervisor(self._process.pid)
        relayed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._discard_output)
            tasks.start_soon(self._relay_rest, relayed)
            # The supervisor ends everything meanwhile, unless it was killed itself.
            with anyio.move_on_after(KILL_TIMEOUT):
                await self._process.wait()
            process_group.kill_group(self._process.pid)
            await self._process.wait()
            with anyio.move_on_after(OUTPUT_TIMEOUT):
                await relayed.wait()
            tasks.cancel_scope.cancel()
        await self._process.aclose()
        os.close(self._source)

    async def _relay_rest(self, relayed: anyio.Event) -> None:
        await self._relay_output()
        relayed.set()

    async def _relay_output(self) -> None:
        """Relay what the server prints to stderr, until the end of that."""
        if self._process.stderr is None:
            return
        if self._on_print is None:
            await child_output.relay_output(self._process.stderr, 2, self._output)
            return
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for data in self._process.stderr:
                self._on_print(data)

    async def _discard_output(self) -> None:
        """Read without using it what the server still writes, so that it can end by itself."""
        with contextlib.suppress(OSError):
            while await Descriptor(self._source).read():  # noqa: ASYNC110 - slower than the server may write
                await anyio.sleep(DISCARD_INTERVAL)

    async def _stop_without_reader(self) -> None:
        """Stop once the server does not read any more: calls would wait for their time limits."""
        await self.stream.lost.wait()
        with anyio.move_on_after(OUTPUT_TIMEOUT):
            await self._process.wait()
        self._stop("the server does not read its input")

    def _stop(self, problem: str) -> None:
        """Carry no more messages."""
        self._problem = self._problem or problem
        self._carrying.cancel()

    async def _stop_after_process(self) -> None:
        """Stop reading soon after the process has ended: what it has started may hold its output open."""
        await self._process.wait()
        await anyio.sleep(OUTPUT_TIMEOUT)
        self._carrying.cancel()

    def _describe_end(self) -> str:
        code = self._process.returncode
        if code is None:
            return self._problem or "the server has closed its output"
        if code == EXIT_NOT_FOUND:
            return "the server could not be executed (exit code 127)"
        return f"the server was ended by signal {-code}" if code < 0 else f"the server ended with exit code {code}"

    def _is_flooded(self) -> bool:
        return self._reader.budget.debt > 0

    async def _slow_down(self) -> None:
        await self._reader.budget.wait_while_empty()

    def _accept_bytes(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._accept_line(line)
        if self._lines.skipped > MAX_DROPPED:
            self._stop("the server has sent a line without an end")

    def _accept_line(self, line: bytes | None) -> None:
        message = self._reader.read_message(line)
        if line is None and (number := find_request(self._lines.fragments)) is not None:
            problem = f"the response is larger than {MAX_MESSAGE // 2**20} MB, and was dropped"
            message = make_failure(number, problem)
        if message is not None and not self._receive(message, None):
            self._reader.budget.charge(1)
