"""One measurement: a window of calls or lists on a warm server, or the start and the streams of a fresh one."""

import asyncio
import contextlib
import time
from dataclasses import dataclass

import orjson

from benchmarks.client import HttpSession, StdioSession
from benchmarks.process import ServerFailed, ServerProcess
from benchmarks.wire import WrongAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How hard and how long a window presses: at least `calls` and at least `seconds`."""

    calls: int
    seconds: float
    in_flight: int


START_LIMIT = 60.0
"""Seconds that a server may take to answer its first tools/list."""
FIRST_CALLS = Load(calls=100, seconds=0, in_flight=1)
"""What a fresh server answers before its memory is read."""
STREAMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one measurement gave.

    `cost` is the server's CPU seconds per call or list, or the seconds from the spawn to the first list; `memory` is in
    bytes, of the server after its first calls or of one stream.
    """

    cost: float = 0.0
    per_second: float = 0.0
    memory: float = 0.0
    reply_type: str = ""
    client_busy: float = 0.0


class Running:
    """A warm server with its session, measured window by window."""

    def __init__(self, server, session, first_list):
        self._server, self._session, self._first_list = server, session, first_list

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, case, **options):
        """Start the server of `case`, shake hands and check its tools/list. Raises ServerFailed."""
        server = ServerProcess(case.command(**options))
        kind = HttpSession if case.transport == "http" else StdioSession
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with answering(server, START_LIMIT):
                    session = await stack.enter_async_context(kind.open(server, case.era))
                    await session.shake_hands()
                    page = await session.list_page()
                    first_list = time.perf_counter() - server.spawned
                    await check_tools(session, page, case.tools)
                yield cls(server, session, first_list)
        finally:
            server.end()

    async def window(self, case, load):
        """Measure one window of what `case` measures, calls or lists."""
        async with answering(self._server, 30 + 10 * load.seconds + load.calls / 20):
            await self._session.prepare(load.in_flight)
            cpu, own, wall = self._server.cpu_seconds(), time.process_time(), time.perf_counter()
            if case.kind == "list":
                count = await self._read_lists(case.tools, load.seconds)
            else:
                count = await self._session.window(calls=load.calls, seconds=load.seconds, in_flight=load.in_flight)
            wall = time.perf_counter() - wall
            busy = (time.process_time() - own) / wall
        return Sample(
            cost=(self._server.cpu_seconds() - cpu) / count,
            per_second=count / wall,
            reply_type=self._session.reply_type,
            client_busy=busy,
        )

    async def start(self, case):
        """Return the start of this fresh server as a sample, with its memory after the first calls."""
        await self.window(case, FIRST_CALLS)
        return Sample(cost=self._first_list, memory=self._server.memory())

    async def open_streams(self, case):
        """Open idle listen streams and return the memory of each as a sample."""
        await self.window(case, FIRST_CALLS)
        before = self._server.memory()
        async with answering(self._server, START_LIMIT):
            await self._session.listen(STREAMS)
        return Sample(memory=(self._server.memory() - before) / STREAMS, reply_type=self._session.reply_type)

    async def _read_lists(self, tools, seconds):
        count, until = 0, time.perf_counter() + seconds
        while not count or time.perf_counter() < until:
            await check_tools(self._session, await self._session.list_page(), tools)
            count += 1
        return count


async def measure_fresh(case, **options):
    """Start a fresh server, measure its start or its streams, end it."""
    async with Running.open(case, **options) as running:
        return await (running.open_streams(case) if case.kind == "streams" else running.start(case))


@contextlib.asynccontextmanager
async def answering(server, seconds):
    """Turn silence, a lost connection and wrong replies into ServerFailed with the server's stderr."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise server.failed(f"gave no answer within {seconds:.0f} s") from error
    except (OSError, WrongAnswer, LookupError, orjson.JSONDecodeError) as error:
        # The process may be about to exit: a moment later its exit code and stderr are there.
        await asyncio.sleep(0.2)
        raise server.failed(f"{type(error).__name__}: {error}") from error


async def check_tools(session, page, expected):
    """Read the remaining pages of tools/list. Raises ServerFailed unless `expected` tools are listed."""
    tools, cursor = page
    names = {tool["name"] for tool in tools}
    while cursor is not None:
        tools, cursor = await session.list_page(cursor)
        names |= {tool["name"] for tool in tools}
    if len(names) != expected:
        raise ServerFailed(f"lists {len(names)} tools, not {expected}")
