"""One worker process, as the bridge sees it: its start, its one call at a time, its end."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio
import orjson
from anyio.abc import Process, TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.isolation import sandbox, system
from mcp_bridge.isolation.order import LINE, Isolation, Order
from mcp_bridge.isolation.words import Json
from mcp_bridge.runtime.line_splitter import Lines

logger = logging.getLogger("mcp_bridge.isolation")

AHEAD = 64
"""Messages of a call that may wait to be heard, before the worker has to wait."""
START = 60.0
"""Seconds that a worker may take until it has something to offer."""
CLOSING = 2.0
"""Seconds that a worker may take to end by itself."""
INSISTING = 1.0
"""Seconds that its keeper may take to end it."""
LATE = 1.0
"""Seconds in which its last words are heard, once it has gone."""
_PASSED = ("HOME", "PATH", "LANG", "TERM", "USER", "LC_ALL", "PYTHONPATH", "TMPDIR", "TZ", "SYSTEMROOT")
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError)
"""What the streams of a process raise once it has ended; RuntimeError is uvloop's."""

Hears = Callable[[Json], None]


class Worker:
    """A process that runs a source, and one call at a time. `hears` gets what it says beside its calls.

    `offer` is the last that it has made. `command` is what runs in it.
    """

    def __init__(self, order: Order, isolation: Isolation, hears: Hears, command: Sequence[str] = ()) -> None:
        self._order = order
        self._isolation = isolation
        self._hears = hears
        self._command = [*command] or [sys.executable, "-P", "-m", "mcp_bridge.isolation.worker"]
        self._process: Process | None = None
        self._calls = 0
        self._talk: MemoryObjectSendStream[Json] | None = None
        self._sending = anyio.Lock()
        self._answered = anyio.Event()
        self._unwanted = anyio.Event()
        self.offer: Json | None = None
        self.offered = anyio.Event()
        self.ended = anyio.Event()
        self.problem = ""

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._process is not None and not self.ended.is_set() and not self._unwanted.is_set()

    @property
    def was_called(self) -> bool:
        """Whether it has ever had a call."""
        return self._calls > 0

    async def start(self, tasks: TaskGroup) -> None:
        """Begin, and wait for the offer. Raises SourceError where there is none."""
        command, boxed = self._command, self._isolation.sandbox
        if boxed is not None:
            command = sandbox.wrapped(command, boxed, self._order.directory)
        environment = _environment(os.environ, self._isolation.env)
        try:
            with anyio.CancelScope(shield=True):  # one that is half there would have no owner
                self._process = process = await anyio.open_process(
                    system.kept(command), stderr=None, env=environment, start_new_session=True
                )
        except OSError as error:
            raise SourceError(f"no worker can be started: {error}") from error
        tasks.start_soon(self._live, process)
        with anyio.move_on_after(START):
            await self._send(self._first())
            await self.offered.wait()
        if not self.offered.is_set():
            self.kill()
            raise SourceError(f"a worker had nothing to offer within {START:g} seconds and was stopped")
        if self.problem:
            self.kill()
            raise SourceError(self.problem)

    async def begin(self, request: Json) -> MemoryObjectReceiveStream[Json]:
        """Send a call; the answer is what the worker says until its result. The stream breaks when it ends."""
        self._hang_up()
        self._calls += 1
        self._answered = anyio.Event()
        self._talk, heard = anyio.create_memory_object_stream[Json](AHEAD)
        if self.ended.is_set():
            self._hang_up()
        try:
            await self._send({"do": "call", "id": self._calls, **request})
        except BaseException:
            heard.close()
            raise
        return heard

    async def reply(self, number: Any, answer: Json) -> None:
        """Answer what a call has asked."""
        await self._send({"do": "reply", "id": number, **answer})

    async def cancel(self, patience: float) -> bool:
        """Tell the worker to give its call up; whether it did so in time."""
        with anyio.move_on_after(patience):
            await self._send({"do": "cancel", "id": self._calls})
            await self._answered.wait()
        return self._answered.is_set()

    def kill(self) -> None:
        """End it now, with all that it has started."""
        self._unwanted.set()
        if self._process is not None and not self.ended.is_set():
            system.end(self._process.pid)

    async def close(self) -> None:
        """End its input, so that it ends by itself; then not by itself."""
        if self.ended.is_set() or self._process is None or self._process.stdin is None:
            return
        with anyio.move_on_after(CLOSING):
            await self._process.stdin.aclose()
            await self.ended.wait()
        self.kill()

    def last_words(self) -> str:
        """How it has ended."""
        code = self._process.returncode if self._process is not None else None
        return system.ended(code, sandboxed=self._isolation.sandbox is not None)

    def _first(self) -> Json:
        limits = asdict(self._isolation.limits)
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in ("", "mcp_bridge")}
        return {"order": asdict(self._order), "limits": limits, "levels": levels}

    async def _send(self, message: Json) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        line = orjson.dumps(message) + b"\n"
        async with self._sending:
            await checkpoint_if_cancelled()
            try:
                await self._process.stdin.send(line)
            except _GONE:
                pass  # it has ended, which the other side says better
            except BaseException:  # half a line may be sent: nothing that follows would be understood
                self.kill()
                raise

    async def _live(self, process: Process) -> None:
        """See it through to its end."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_follow, process, tasks.cancel_scope)
                tasks.start_soon(self._insist, process)
                await self._listen(process)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _part(process, 0 if self._unwanted.is_set() else CLOSING)
            self.ended.set()
            self.offered.set()
            self.problem = self.problem or f"the worker {self.last_words()} before it had begun"
            self._hang_up()

    async def _insist(self, process: Process) -> None:
        """A keeper that was stopped by the worker ends nothing."""
        await self._unwanted.wait()
        await anyio.sleep(INSISTING)
        system.kill(process.pid)

    async def _listen(self, process: Process) -> None:
        lines = Lines(LINE)
        assert process.stdout is not None
        try:
            async for data in process.stdout:
                for line in lines.feed(data):
                    await self._hear(line)
                await checkpoint()  # one that talks without end leaves room for the others
        except _GONE:
            pass

    async def _hear(self, line: bytes | None) -> None:
        try:
            message = orjson.loads(line) if line is not None else {"say": "too long"}
            said = message["say"]
            if said in ("offer", "failed", "log", "updated"):
                self._beside(said, message)
            elif line is None or message.get("id") == self._calls:
                await self._of_call(said, message)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            logger.warning("a worker of source %r said what nobody understands: %s", self._order.name, problem)
            self.kill()

    def _beside(self, said: str, message: Json) -> None:
        if said == "failed":
            self.problem = str(message.get("problem"))
            if self.offered.is_set():
                logger.error("a worker of source %r cannot go on: %s", self._order.name, self.problem)
                self.kill()
            self.offered.set()
            return
        if said == "offer":
            self.offer = message
        self._hears(message)
        if said == "offer":
            self.offered.set()

    async def _of_call(self, said: str, message: Json) -> None:
        talk = self._talk
        if talk is not None:
            with contextlib.suppress(*_GONE):  # nobody listens any more
                await talk.send(message)
        if said == "result":
            self._answered.set()
            self._hang_up()

    def _hang_up(self) -> None:
        if self._talk is not None:
            self._talk.close()
            self._talk = None


async def _follow(process: Process, hearing: anyio.CancelScope) -> None:
    """Something that the process has started may hold its output open: that does not keep it among the living."""
    await process.wait()
    system.kill(process.pid)
    await anyio.sleep(LATE)
    hearing.cancel()


async def _part(process: Process, patience: float) -> None:
    """Let a process end by itself, for a moment; then it ends, with all that it has started."""
    with anyio.move_on_after(patience):
        if process.stdin is not None:
            await process.stdin.aclose()
        await process.wait()
    system.end(process.pid)
    with anyio.move_on_after(INSISTING):
        await process.wait()
    system.kill(process.pid)
    await process.wait()
    await process.aclose()


def _environment(environ: Mapping[str, str], named: tuple[str, ...]) -> dict[str, str]:
    """What a worker's environment has: ordinary variables, and those that the settings name."""
    return {name: environ[name] for name in (*_PASSED, *named) if name in environ}
