"""Runs a program below a supervisor, which ends the program and all of its descendants.

A run is a task of the source, not of its call, so a cancelled call cannot interrupt the end of the program:

1. `run` starts the supervisor with a pipe, the lifeline. If this process dies, the pipe closes, and the supervisor ends
   the program.
2. Two tasks read stdout and stderr until both are closed. Five seconds after the end of the program they stop, because
   another process that has inherited the output may keep it open.
3. `cancel`, too much output and the end of the source all cancel the scope of the run. Then the supervisor gets
   SIGTERM, and ends the program. If the supervisor does not end in time, its process group is killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import IO

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_bridge._contracts.errors import CallError, ResultTooLarge, ToolError, ToolUnavailable
from mcp_bridge._runtime import process_group
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.platform import system

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_TIMEOUT = GRACE + 1.5
"""Seconds after which the process group is killed, if the supervisor has not ended it."""
OUTPUT_TIMEOUT = 5.0
"""Seconds for which output is read after the program has ended, because another process may keep it open."""
STDERR_TAIL = 64 * 1024
"""The number of bytes from the end of stderr that are kept."""
MAX_LINE = 4096
"""The maximum number of bytes of a line that is streamed."""
MAX_WAITING_LINES = 64
"""The maximum number of lines that wait for the client. Further lines are dropped, so that the program never waits."""
EXIT_NOT_EXECUTED = 127
"""The exit code of the supervisor if it cannot execute the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOrder:
    """The description of a run: the command line, its environment, and how its output is read.

    Attributes:
        words: The command line.
        label: The name of the program in messages.
        directory: The working directory.
        stdin: The text of the standard input, or None if it is empty.
        limit: The maximum number of bytes of output.
        joins_stderr: Whether stderr is a part of the output.
        streams_output: Whether lines of stdout are streamed.
        streams_stderr: Whether lines of stderr are streamed.
    """

    words: Sequence[str]
    label: str
    env: Mapping[str, str]
    directory: Path
    stdin: str | None = None
    limit: int
    joins_stderr: bool = False
    streams_output: bool = False
    streams_stderr: bool = False


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """The end of a program: its exit code (negative for a signal), its output, and the end of its stderr."""

    code: int
    output: bytes
    stderr: bytes


class ProgramRun:
    """One run of a program, in a task of the source.

    The caller may iterate `lines`, the streamed lines of a running program, and has to close this stream.
    """

    def __init__(self, order: ProgramOrder) -> None:
        self._order = order
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._exit: ProgramExit | None = None
        self._problem: CallError | None = None
        self._output = bytearray()
        self._stderr = bytearray()
        self.lines: MemoryObjectReceiveStream[str]
        self._line_sender: MemoryObjectSendStream[str]
        self._line_sender, self.lines = anyio.create_memory_object_stream[str](MAX_WAITING_LINES)

    def cancel(self) -> None:
        """End the program: SIGTERM, and SIGKILL after a second."""
        self._scope.cancel()

    async def wait_for_exit(self) -> ProgramExit:
        """Wait until the program has ended. Raises CallError if it could not run, or had to be ended."""
        await self._ended.wait()
        if self._problem is not None:
            raise self._problem
        if self._exit is None:
            raise ToolUnavailable(f"The program '{self._order.label}' was stopped: the server is shutting down.")
        return self._exit

    async def run(self) -> None:
        """Run the program until it ends, or is cancelled."""
        try:
            with self._scope, self._line_sender:
                await self._run_program()
        except CallError as error:
            self._problem = error
        finally:
            self._ended.set()

    async def _run_program(self) -> None:
        # This process never writes to the lifeline. The system closes the writing end when this process ends.
        lifeline, writing_end = os.pipe()
        try:
            process, group = await self._start_program(lifeline)
        except BaseException:
            os.close(writing_end)
            raise
        finally:
            os.close(lifeline)
        try:
            self._exit = await self._read_until_exit(process)
        finally:
            with anyio.CancelScope(shield=True):
                await _end_process(process, group)
            os.close(writing_end)

    async def _start_program(self, lifeline: int) -> tuple[Process, system.ProcessGroup]:
        order = self._order
        with _open_input(order.stdin) as stdin:
            # The lifeline is the stdin of the supervisor, so the input of the program is another inherited descriptor.
            is_supervised = system.HAS_SUPERVISORS
            try:
                words = system.wrap_command(order.words, grace=GRACE, stdin=stdin.fileno())
            except ValueError as error:
                raise ToolError(f"The program '{order.label}' cannot get these arguments: {error}.") from error
            try:
                return await process_group.open_process(
                    words,
                    descriptors=(stdin.fileno(),) if is_supervised else (),
                    stdin=lifeline if is_supervised else stdin,
                    stdout=PIPE,
                    stderr=STDOUT if order.joins_stderr else PIPE,
                    cwd=order.directory,
                    env=order.env,
                )
            except OSError as error:
                raise _describe_start_error(error, order.label) from error

    async def _read_until_exit(self, process: Process) -> ProgramExit:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_after_exit, process, tasks.cancel_scope)
            # The block of the readers ends when both streams are closed, or is cancelled with `tasks`.
            async with anyio.create_task_group() as readers:
                if process.stdout is not None:
                    readers.start_soon(self._read_output, process.stdout)
                if process.stderr is not None:
                    readers.start_soon(self._read_stderr, process.stderr)
            tasks.cancel_scope.cancel()
        code = await process.wait()
        return ProgramExit(code, bytes(self._output), bytes(self._stderr[-STDERR_TAIL:]))

    async def _read_output(self, stream: ByteReceiveStream) -> None:
        order, splitter = self._order, LineSplitter(MAX_LINE)
        async for data in _iterate(stream):
            self._output += data
            if len(self._output) > order.limit:
                self._problem = ResultTooLarge(
                    f"The program '{order.label}' printed more than {order.limit:,} bytes, and was ended. "
                    "Choose arguments for which it prints less."
                )
                self.cancel()
            if order.streams_output:
                self._stream_lines(splitter.feed(data))
        if order.streams_output:
            self._stream_lines(splitter.finish())

    async def _read_stderr(self, stream: ByteReceiveStream) -> None:
        splitter = LineSplitter(MAX_LINE)
        async for data in _iterate(stream):
            self._stderr += data
            if len(self._stderr) > 2 * STDERR_TAIL:
                del self._stderr[:-STDERR_TAIL]
            if self._order.streams_stderr:
                self._stream_lines(splitter.feed(data))
        if self._order.streams_stderr:
            self._stream_lines(splitter.finish())

    def _stream_lines(self, lines: Iterable[bytes | None]) -> None:
        # `lines` is a generator of the splitter, which must run to its end to keep its state. Too long lines are None.
        complete_lines = [line for line in lines if line is not None]
        with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError):
            for line in complete_lines:
                self._line_sender.send_nowait(line.decode(errors="replace").rstrip("\r"))


async def _iterate(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        while True:
            yield await stream.receive()


async def _cancel_after_exit(process: Process, scope: anyio.CancelScope) -> None:
    await process.wait()
    await anyio.sleep(OUTPUT_TIMEOUT)
    scope.cancel()


async def _end_process(process: Process, group: system.ProcessGroup) -> None:
    """Let the supervisor end the program, or kill both if it does not do so in time."""
    if process.returncode is None:
        group.terminate()
        with anyio.move_on_after(KILL_TIMEOUT):
            await process.wait()
    if process.returncode is None:
        group.kill()
        await process.wait()
    group.close()
    await process.aclose()


@contextlib.contextmanager
def _open_input(text: str | None) -> Iterator[IO[bytes]]:
    """Open the input of a program. It is a file, because a pipe would need a task that writes to it."""
    if text is None:
        with open(os.devnull, "rb") as null:
            yield null
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _describe_start_error(error: OSError, label: str) -> CallError:
    if error.errno == errno.E2BIG:
        return ToolError("The arguments are longer than the system allows. Pass less text.", code="arguments_too_long")
    return ToolUnavailable(f"The program '{label}' cannot be started: {error.strerror}.")
