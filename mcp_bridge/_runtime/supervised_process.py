"""Runs a child process below a supervisor. Workers, and the programs of other MCP servers, run in this way.

1. `start_process` starts the process, with a pipe for its input and one for its output.
2. `run` relays its stderr while the caller reads its output, until the output ends or `stop` is called. Descendants of
   the process may hold the output open, so reading also stops soon after the process has ended.
3. `end` closes the input, so that the process can end by itself. If it does not, its supervisor ends the process and
   its descendants. If the supervisor is stuck or was killed, the process group is killed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from mcp_bridge._runtime import child_output, process_group
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.stdio_descriptors import Descriptor

SUPERVISOR_TIMEOUT = 1.5
"""Seconds that a supervisor may take to end its processes, in addition to its grace periods."""
OUTPUT_TIMEOUT = 0.5
"""Seconds for which output is still read after the process has ended."""
DISCARD_INTERVAL = 0.005
"""Seconds between two reads of discarded output. Without a pause, a process that never stops writing would take a whole
core."""

PrintListener = Callable[[bytes], None]
"""Receives what the process prints to stderr."""
ReadFunction = Callable[[], Coroutine[Any, Any, None]]
"""Reads the output of the process until its end."""


async def start_process(
    command: Sequence[str],
    *,
    label: str,
    env: Mapping[str, str],
    directory: Path | None = None,
    grace: float = 0.0,
    on_print: PrintListener | None = None,
    cleanup: Sequence[str] = (),
) -> SupervisedProcess:
    """Start a command below a supervisor. Raises OSError, or ValueError for an invalid argument.

    Args:
        command: The program and its arguments.
        label: The text before each line of its stderr in the log.
        env: All environment variables of the process.
        directory: The working directory; by default that of the bridge.
        grace: Seconds between SIGTERM and SIGKILL when the supervisor ends the process.
        on_print: Receives the stderr of the process in place of the relay.
        cleanup: A command that runs after the process has ended, unless its exit code was 0.
    """
    (stdin, sink), (source, stdout) = os.pipe(), os.pipe()
    try:
        process, group = await process_group.open_process(
            system.wrap_command(command, grace=grace, cleanup=cleanup),
            stdin=stdin,
            stdout=stdout,
            stderr=child_output.STDERR,
            env=env,
            cwd=directory,
        )
    except BaseException:
        os.close(source)
        os.close(sink)
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    return SupervisedProcess(process, group, source, sink, label, grace, on_print)


class SupervisedProcess:
    """A process of `start_process`. `input` and `output` are its pipes."""

    def __init__(
        self,
        process: Process,
        group: system.ProcessGroup,
        source: int,
        sink: int,
        label: str,
        grace: float,
        on_print: PrintListener | None,
    ) -> None:
        self.output = Descriptor(source)
        self.input = Descriptor(sink)
        self._process = process
        self._group = group
        self._lines = child_output.LineLabeller(label)
        self._on_print = on_print
        self._grace = grace
        self._end_timeout = system.WORKER_GRACE + grace + SUPERVISOR_TIMEOUT
        self._is_input_closed = False
        self._reading = anyio.CancelScope()
        self._has_run = anyio.Event()
        self._relayed = anyio.Event()

    @property
    def pid(self) -> int:
        """The id of the supervisor."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None before the end."""
        return self._process.returncode

    @property
    def last_lines(self) -> Sequence[str]:
        """The last lines that the process has printed to stderr."""
        return tuple(self._lines.last_lines)

    async def run(self, read: ReadFunction, *others: ReadFunction) -> None:
        """Run `read` until it returns, and `others` at the same time. `stop` cancels all of them."""
        try:
            with self._reading:
                async with anyio.create_task_group() as tasks:
                    for function in (*others, self._relay_stderr, self._stop_after_exit):
                        tasks.start_soon(function)
                    with contextlib.suppress(OSError):
                        await read()
                    await self.wait_for_exit(OUTPUT_TIMEOUT)
                    tasks.cancel_scope.cancel()
        finally:
            self._has_run.set()

    def stop(self) -> None:
        """End `run`."""
        self._reading.cancel()

    def terminate(self) -> None:
        """Let the supervisor end the process now, even if it ignores the end of its input. `end` has to follow."""
        self._end_timeout = self._grace + SUPERVISOR_TIMEOUT
        if self.returncode is None:
            self._group.terminate()
        self.stop()

    def close_input(self) -> None:
        """Close the input, unless it is closed already."""
        if not self._is_input_closed:
            self._is_input_closed = True
            os.close(self.input.fd)

    async def wait_for_exit(self, timeout: float) -> None:
        """Wait until the process has ended, but no longer than `timeout` seconds."""
        with anyio.move_on_after(timeout):
            await self._process.wait()

    async def end(self) -> None:
        """Close the input of the process, wait until the process has ended, and kill its process group."""
        self.stop()
        await self._has_run.wait()
        self.close_input()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._discard_output)
            tasks.start_soon(self._relay_stderr)
            await self.wait_for_exit(self._end_timeout)
            self._group.kill()
            await self._process.wait()
            self._group.close()
            with anyio.move_on_after(OUTPUT_TIMEOUT):
                await self._relayed.wait()
            tasks.cancel_scope.cancel()
        await self._process.aclose()
        os.close(self.output.fd)

    async def _stop_after_exit(self) -> None:
        await self._process.wait()
        await anyio.sleep(OUTPUT_TIMEOUT)
        self.stop()

    async def _relay_stderr(self) -> None:
        """Relay the output on stderr. This can be cancelled and begun again."""
        stderr = self._process.stderr
        if stderr is None or self._relayed.is_set():
            pass
        elif self._on_print is None:
            await child_output.relay_output(stderr, labeller=self._lines)
        else:
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                async for data in stderr:
                    self._on_print(data)
        self._relayed.set()

    async def _discard_output(self) -> None:
        """Read what the process still writes, so that it does not wait for a reader and can end."""
        with contextlib.suppress(OSError):
            while await self.output.read():  # noqa: ASYNC110 - slower than the process may write
                await anyio.sleep(DISCARD_INTERVAL)
