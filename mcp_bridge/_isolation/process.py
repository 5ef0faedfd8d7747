"""One worker process, as the bridge sees it: its start, its calls one after the other, its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._isolation import worker_system
from mcp_bridge._isolation.codec import Json
from mcp_bridge._isolation.order import MAX_WORKER_LINE, IsolationOptions, WorkerOrder
from mcp_bridge._protocol.line_channel import InvalidLine, JsonLines, OversizedLine
from mcp_bridge._runtime import child_output, process_group, sandbox
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.token_bucket import TokenBucket

logger = logging.getLogger("mcp_bridge.isolation")

MESSAGE_BUFFER = 64
"""Messages of a call that are buffered before the worker has to wait."""
MESSAGE_RATE, MESSAGE_BURST = 2_000, 10_000
"""The rate per second and the burst of messages of a worker that are handled. A long message counts once per KiB.
Results of calls do not count, replies to the worker do."""
OFFER_COST = 100
"""How many messages an offer counts as, because each is published to the clients."""
START_TIMEOUT = 60.0
"""Seconds that a worker may take until its first offer."""
CLOSE_TIMEOUT = 2.0
"""Seconds that a worker may take to end by itself."""
SUPERVISOR_TIMEOUT = 1.0
"""Seconds that its supervisor may take to end it."""
OUTPUT_TIMEOUT = 1.0
"""Seconds in which its output is still read once it has ended."""
_CLOSED_ERRORS = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError)
"""What the streams of a process that has ended raise; RuntimeError is uvloop's."""

OFFER_START = b'{"say":"offer"'
"""How the line of an offer begins."""

MessageHandler = Callable[[Json], None]


class WorkerProcess:
    """A process that runs a source, and one call at a time.

    `on_message` gets its offers and notifications outside of calls. `offer` is its last offer. `command` is what runs
    in it.
    """

    def __init__(
        self, order: WorkerOrder, isolation: IsolationOptions, on_message: MessageHandler, command: Sequence[str] = ()
    ) -> None:
        self._order = order
        self._isolation = isolation
        self._on_message = on_message
        self._command = [*command] or [sys.executable, "-P", "-m", "mcp_bridge._isolation.worker"]
        self._process: Process | None = None
        self._calls = 0
        self._called_at = 0.0
        self._own: frozenset[Any] = frozenset()  # the processes that run between calls
        self._talk: MemoryObjectSendStream[Json] | None = None
        self._sending = anyio.Lock()
        self._budget = TokenBucket(rate=MESSAGE_RATE, burst=MESSAGE_BURST)
        self._answered, self._has_sent_call = anyio.Event(), False
        self._unwanted = anyio.Event()
        self._relayed = anyio.Event()
        self.offer: Json | None = None
        self.offered = anyio.Event()
        self.ended = anyio.Event()
        self.problem = ""

    @property
    def is_alive(self) -> bool:
        return self._process is not None and not self.ended.is_set() and not self._unwanted.is_set()

    @property
    def was_called(self) -> bool:
        return self._calls > 0

    async def start(self, tasks: TaskGroup) -> None:
        """Start the process and wait for its offer. Raises SourceError if it makes none."""
        command, boxed = self._command, self._isolation.sandbox
        if boxed is not None:
            command = sandbox.build_command(command, boxed, self._order.directory, self._isolation.limits.memory)
        environment = process_group.build_environment("PYTHONPATH", *self._isolation.env)
        try:
            with anyio.CancelScope(shield=True):  # a process whose start is cancelled would have no owner
                self._process = process = await anyio.open_process(
                    process_group.wrap_command(command),
                    stderr=child_output.STDERR,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise SourceError(f"a worker cannot be started: {error}") from error
        tasks.start_soon(self._run_until_ended, process)
        with anyio.move_on_after(START_TIMEOUT):
            await self._send_message(self._build_first_message())
            await self.offered.wait()
        if not self.offered.is_set():
            self.kill()
            raise SourceError(f"a worker made no offer within {START_TIMEOUT:g} seconds and was stopped")
        if self.problem:
            self.kill()
            raise SourceError(self.problem)
        self._own = await anyio.to_thread.run_sync(worker_system.list_processes, process.pid)

    async def start_call(self, request: Json) -> MemoryObjectReceiveStream[Json]:
        """Send a call; return the stream of the worker's messages up to the result. It breaks if the worker ends."""
        self._called_at = time.time()
        self._close_call_stream()
        self._calls += 1
        self._answered, self._has_sent_call = anyio.Event(), False
        self._talk, messages = anyio.create_memory_object_stream[Json](MESSAGE_BUFFER)
        if self.ended.is_set():
            self._close_call_stream()
        try:
            await self._send_message({"do": "call", "id": self._calls, **request})
        except BaseException:
            messages.close()
            if not self._has_sent_call:
                self._answered.set()
            raise
        return messages

    async def reply(self, number: Any, response: Json) -> None:
        self._budget.charge(await self._send_message({"do": "reply", "id": number, **response}) / 1024)

    async def cancel_call(self, patience: float) -> bool:
        """Cancel the worker's call; return whether it has ended within `patience` seconds.

        The programs that the call has started are killed: some tools, such as shells, leave them running.
        """
        with anyio.move_on_after(patience):
            await self._send_message({"do": "cancel", "id": self._calls})
            await self._answered.wait()
        if self._answered.is_set() and self._process is not None:
            since, own = self._called_at, self._own
            await anyio.to_thread.run_sync(worker_system.kill_started_since, self._process.pid, since, own)
        return self._answered.is_set()

    def kill(self) -> None:
        """End the process now, with all that it has started."""
        self._unwanted.set()
        if self._process is not None and not self.ended.is_set():
            process_group.terminate_supervisor(self._process.pid)

    async def close(self) -> None:
        """Close its input, so that it ends by itself; kill it if it does not."""
        if self.ended.is_set() or self._process is None or self._process.stdin is None:
            return
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self._process.stdin.aclose()
            await self.ended.wait()
        self.kill()

    def describe_exit(self) -> str:
        code = self._process.returncode if self._process is not None else None
        return worker_system.describe_status(code, sandboxed=self._isolation.sandbox is not None)

    def _build_first_message(self) -> Json:
        limits = asdict(self._isolation.limits)
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in ("", "mcp_bridge")}
        return {"order": asdict(self._order), "limits": limits, "levels": levels}

    async def _send_message(self, message: Json) -> int:
        """Send a message and return its length."""
        assert self._process is not None
        assert self._process.stdin is not None
        line = dump_json(message) + b"\n"
        async with self._sending:
            await checkpoint_if_cancelled()
            self._has_sent_call = self._has_sent_call or message.get("do") == "call"
            try:
                await self._process.stdin.send(line)
            except _CLOSED_ERRORS:
                pass  # it has ended, which `_run_until_ended` reports
            except asyncio.CancelledError:  # streams of asyncio send the whole line nevertheless
                raise
            except BaseException:  # after half a line the worker cannot read the next one
                self.kill()
                raise
        return len(line)

    async def _run_until_ended(self, process: Process) -> None:
        """Read its output until it has ended, and release it."""
        async with anyio.create_task_group() as relaying:
            relaying.start_soon(self._relay_output, process)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_stop_reading_after_end, process, tasks.cancel_scope)
                    tasks.start_soon(self._kill_when_unwanted, process)
                    await self._read_messages(process)
                    tasks.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await _end_process(process, 0 if self._unwanted.is_set() else CLOSE_TIMEOUT, self._relayed)
                self.ended.set()
                self.offered.set()
                self.problem = self.problem or f"the worker {self.describe_exit()} before its first offer"
                self._close_call_stream()

    async def _relay_output(self, process: Process) -> None:
        with anyio.CancelScope(shield=True):  # it ends with the process, and what that prints last explains why
            if process.stderr is not None:
                labeller = child_output.LineLabeller(self._order.name or "worker")
                await child_output.relay_output(process.stderr, labeller=labeller)
            self._relayed.set()

    async def _kill_when_unwanted(self, process: Process) -> None:
        """Kill the supervisor too: it ends nothing if the worker has stopped it by a signal."""
        await self._unwanted.wait()
        await anyio.sleep(SUPERVISOR_TIMEOUT)
        process_group.kill_group(process.pid)

    async def _read_messages(self, process: Process) -> None:
        # Offers are large if a source has many tools. They are sent seldom, and not by calls.
        lines = JsonLines(MAX_WORKER_LINE, unbounded=OFFER_START)
        assert process.stdout is not None
        try:
            async for data in process.stdout:
                for message, length in lines.feed(data):
                    await self._handle_message(message, length)
                await checkpoint()  # a worker that sends without end must not starve the others
        except _CLOSED_ERRORS:
            pass
        except InvalidLine as error:
            self._reject_message(error)

    async def _handle_message(self, message: Any, length: int) -> None:
        try:
            is_oversized = isinstance(message, OversizedLine)
            if is_oversized:
                message = {"say": "too long"}
            event = message["say"]
            await self._slow_down(event, message, length)
            if event in ("offer", "failed", "log", "updated", "secrets"):
                self._handle_notification(event, message)
            elif is_oversized or message.get("id") == self._calls:
                await self._forward_to_call(event, message)
        except Exception as error:
            self._reject_message(error)

    def _reject_message(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        logger.warning("a worker of source %r sent an invalid message: %s", self._order.name, problem)
        self.kill()

    async def _slow_down(self, event: Any, message: Json, length: int) -> None:
        """Delay messages of a worker that floods the bridge, except the result of a call."""
        if event != "result" or message.get("id") != self._calls or self._talk is None:
            self._budget.charge((OFFER_COST if event == "offer" else 1) + length / 1024)
            await self._budget.wait_while_empty()

    def _handle_notification(self, event: str, message: Json) -> None:
        if event == "failed":
            self.problem = str(message.get("problem"))
            if self.offered.is_set():
                logger.error("a worker of source %r cannot continue: %s", self._order.name, self.problem)
                self.kill()
        else:
            self.offer = message if event == "offer" else self.offer
            self._on_message(message)
        if event in ("failed", "offer"):
            self.offered.set()

    async def _forward_to_call(self, event: str, message: Json) -> None:
        talk = self._talk
        if talk is not None:
            with contextlib.suppress(*_CLOSED_ERRORS):  # the call has ended
                await talk.send(message)
        if event == "result":
            self._answered.set()
            self._close_call_stream()

    def _close_call_stream(self) -> None:
        if self._talk is not None:
            self._talk.close()
            self._talk = None


async def _stop_reading_after_end(process: Process, reading: anyio.CancelScope) -> None:
    """Stop reading after the process has ended: what it has started may hold its output open."""
    await process.wait()
    process_group.kill_group(process.pid)
    await anyio.sleep(OUTPUT_TIMEOUT)
    reading.cancel()


async def _end_process(process: Process, patience: float, relayed: anyio.Event) -> None:
    """Wait for a process to end by itself for `patience` seconds; then end it, with all that it has started."""
    with anyio.move_on_after(patience):
        if process.stdin is not None:
            await process.stdin.aclose()
        await process.wait()
    process_group.terminate_supervisor(process.pid)
    with anyio.move_on_after(SUPERVISOR_TIMEOUT):
        await process.wait()
    process_group.kill_group(process.pid)
    await process.wait()
    with anyio.move_on_after(OUTPUT_TIMEOUT):
        await relayed.wait()
    await process.aclose()
