"""WorkerProcess: one worker process, as the bridge sees it, from its start over its calls to its end.

A worker is started with an order, and sends an offer. Then it runs one call at a time, until it is closed or killed, or
ends. What it sends is read in one place, by `_read_messages`:

    {"say": "version", "version": "1.0.0"}      at the start, before it reads the order
    {"say": "offer", ...}                       at the start, and after each change of its entries, also during calls
    {"say": "log" | "updated" | "secrets", ...}  at any time: notifications of the source
    {"say": "failed", ...}                      at any time: the source has failed
    {"say": "progress" | "ask" | ..., "id": 7}   during call 7: its notifications and requests
    {"say": "result", "id": 7, ...}              the end of call 7

The messages of a call go into the stream that `start_call` returns. Messages that belong to an earlier call are
dropped. The code of tools controls the process, so it may send anything. An invalid message ends the worker.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._isolation import worker_system
from mcp_bridge._isolation.codec import Json
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import MAX_WORKER_LINE, WorkerOrder
from mcp_bridge._protocol.line_channel import JsonLines, OversizedLine
from mcp_bridge._protocol.peer.line_writer import MessageWriter
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.supervised_process import SupervisedProcess, start_process
from mcp_bridge._runtime.token_bucket import TokenBucket

logger = logging.getLogger("mcp_bridge.isolation")

MESSAGE_BUFFER = 64
"""The maximum number of messages of a call that are buffered. With more, the worker has to wait."""
MESSAGE_RATE, MESSAGE_BURST = 2_000, 10_000
"""How many messages of a worker are handled: per second on average, and in one burst. A long message counts once more
per KiB. Replies to the worker count, results of calls do not."""
OFFER_COST = 100
"""The number of messages for which an offer counts, because it is published to all clients."""
START_TIMEOUT = 60.0
"""Seconds in which a worker has to make its first offer."""
CLOSE_TIMEOUT = 2.0
"""Seconds in which a worker has to end after its input was closed."""
OFFER_START = b'{"say":"offer"'
"""The start of the line of an offer. An offer may have any number of values, because a source may have many tools."""


class FailedSource(SourceError):
    """The source in a worker has failed, and not only the process. So the source would fail in another worker, too."""


class WorkerProcess:
    """A process with a source. It runs one call at a time.

    Attributes:
        offer: The last offer of its source.
        offered: Set after the first offer, or if there will be none.
        ended: Set after the end of the process.
        problem: Why the source has failed, or an empty text.
    """

    def __init__(
        self,
        order: WorkerOrder,
        isolation: IsolationOptions,
        on_message: Callable[[Json], None],
    ) -> None:
        """Prepare a worker. `on_message` gets the offers and notifications of its source."""
        self._order = order
        self._isolation = isolation
        self._on_message = on_message
        self._process: SupervisedProcess | None = None
        self._writer: MessageWriter | None = None
        # The number of calls so far, which is also the id of the current one, and the Unix time of its start.
        self._calls = 0
        self._called_at = 0.0
        # The processes that run between calls.
        self._idle_processes: frozenset[Any] = frozenset()
        self._call_stream: MemoryObjectSendStream[Json] | None = None
        self._call_ended = anyio.Event()
        self._budget = TokenBucket(rate=MESSAGE_RATE, burst=MESSAGE_BURST)
        self.offer: Json | None = None
        self.offered = anyio.Event()
        self.ended = anyio.Event()
        self.problem = ""

    @property
    def is_alive(self) -> bool:
        return self._writer is not None

    @property
    def was_called(self) -> bool:
        return self._calls > 0

    async def start(self, tasks: TaskGroup) -> None:
        """Start the process and wait for its offer. Raises SourceError if it makes none."""
        confinement, memory = self._isolation.confinement, self._isolation.limits.memory
        launch = confinement.build_launch(self._isolation.env, self._order.directory, memory)
        try:
            self._process = await start_process(
                launch.command, env=launch.env, label=self._order.name or "worker", cleanup=launch.cleanup
            )
        except (OSError, ValueError) as error:
            raise SourceError(f"a worker cannot be started: {error}") from error
        self._writer = MessageWriter(self._process.input)
        tasks.start_soon(self._run_until_ended, self._process, self._writer)
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in ("", "mcp_bridge")}
        limits = asdict(self._isolation.limits)
        with anyio.move_on_after(START_TIMEOUT):
            self._send_message({"order": asdict(self._order), "limits": limits, "levels": levels})
            await self.offered.wait()
        if not self.offered.is_set():
            self.kill()
            raise SourceError(f"a worker made no offer within {START_TIMEOUT:g} seconds and was stopped")
        if self.problem:
            self.kill()
            raise FailedSource(self.problem)
        if self.offer is None:
            reason = confinement.explain_failed_start(self._process.returncode, self._process.last_lines)
            raise SourceError(reason or f"the worker {self.describe_exit()} before its first offer")
        self._idle_processes = await anyio.to_thread.run_sync(worker_system.list_processes, self._process.pid)

    def start_call(self, request: Json) -> MemoryObjectReceiveStream[Json]:
        """Send a call. Return the stream of its messages up to the result, which breaks if the worker ends."""
        self._called_at = time.time()
        self._close_call_stream()
        self._calls += 1
        self._call_ended = anyio.Event()
        self._call_stream, messages = anyio.create_memory_object_stream[Json](MESSAGE_BUFFER)
        if not self.is_alive:
            self._close_call_stream()
        self._send_message({"do": "call", "id": self._calls, **request})
        return messages

    async def reply(self, number: Any, response: Json) -> None:
        """Respond to the request of the call with this number. Wait while the worker does not read."""
        length = self._send_message({"do": "reply", "id": number, **response})
        self._budget.charge(length / 1024)
        if self._writer is not None:
            await self._writer.flush(math.inf)

    async def cancel_call(self, timeout: float) -> bool:
        """Cancel the call of the worker. Return whether the call has ended within `timeout` seconds.

        The programs that the call has started are killed when it has ended, because some tools, such as shells, leave
        them running. If the call does not end, the caller kills the worker with all its programs.
        """
        with anyio.move_on_after(timeout):
            self._send_message({"do": "cancel", "id": self._calls})
            await self._call_ended.wait()
        if self._call_ended.is_set() and self._process is not None:
            await anyio.to_thread.run_sync(
                worker_system.kill_started_since, self._process.pid, self._called_at, self._idle_processes
            )
        return self._call_ended.is_set()

    def kill(self) -> None:
        """End the process now, with all its descendants."""
        self._writer = None
        if self._process is not None and not self.ended.is_set():
            self._process.terminate()

    async def close(self) -> None:
        """Close the input of the process, so it ends. Kill the process if it does not."""
        self._writer = None
        if self._process is not None:
            self._process.close_input()
            with anyio.move_on_after(CLOSE_TIMEOUT):
                await self.ended.wait()
            self.kill()

    def describe_exit(self) -> str:
        code = None if self._process is None else self._process.returncode
        return self._isolation.confinement.describe_exit(code, self._isolation.limits.memory)

    def _send_message(self, message: Json) -> int:
        """Send a message and return its length. A message is dropped if the worker has ended."""
        line = dump_json(message) + b"\n"
        if self._writer is not None:
            self._writer.put_bytes(line)
        return len(line)

    async def _run_until_ended(self, process: SupervisedProcess, writer: MessageWriter) -> None:
        """Carry messages until the process has ended, and release everything that waits for it."""
        try:
            await process.run(lambda: self._read_messages(process), writer.run)
        finally:
            self._writer = None
            with anyio.CancelScope(shield=True):
                await process.end()
            self.ended.set()
            self.offered.set()
            self._close_call_stream()

    async def _read_messages(self, process: SupervisedProcess) -> None:
        lines = JsonLines(MAX_WORKER_LINE, unbounded=OFFER_START)
        try:
            data = await process.output.read()
            while data:
                for message, length in lines.feed(data):
                    await self._handle_message(message, length)
                data = await process.output.read()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            logger.warning("a worker of source %r sent an invalid message: %s", self._order.name, problem)
            self.kill()

    async def _handle_message(self, message: Any, length: int) -> None:
        is_oversized = isinstance(message, OversizedLine)
        if is_oversized:
            message = {"say": "too long"}
        event = message["say"]
        is_result = event == "result" and message.get("id") == self._calls and self._call_stream is not None
        # A worker that floods the bridge has to wait. A call has only one result, so that need not wait.
        if not is_result:
            self._budget.charge((OFFER_COST if event == "offer" else 1) + length / 1024)
            await self._budget.wait_while_empty()
        if event == "version":
            self.problem = self._isolation.confinement.explain_version(str(message.get("version")))
            if self.problem:
                self.offered.set()
        elif event == "failed":
            self.problem = str(message.get("problem"))
            if self.offered.is_set():
                logger.error("a worker of source %r cannot continue: %s", self._order.name, self.problem)
                self.kill()
            self.offered.set()
        elif event == "offer":
            self.offer = message
            self._on_message(message)
            self.offered.set()
        elif event in ("log", "updated", "secrets"):
            self._on_message(message)
        # An oversized line is not parsed, so it counts as a message of the current call.
        elif is_oversized or message.get("id") == self._calls:
            if self._call_stream is not None:
                # The receiver closes the stream if it abandons the call.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._call_stream.send(message)
            if event == "result":
                self._call_ended.set()
                self._close_call_stream()

    def _close_call_stream(self) -> None:
        if self._call_stream is not None:
            self._call_stream.close()
            self._call_stream = None
