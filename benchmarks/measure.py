"""One measurement: a window of calls on a warm server, or one start of a fresh one."""

import asyncio
import contextlib
import time
from dataclasses import dataclass

import orjson

from benchmarks.client import HttpSession, StdioSession
from benchmarks.process import ServerFailed, ServerProcess
from benchmarks.wire import WrongAnswer

START_LIMIT = 60.0
"""Seconds that a server may take to answer its first tools/list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How hard and how long a window presses: at least `calls` and at least `seconds`."""

    calls: int
    seconds: float
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one measurement gave. `cost` is what ratios compare: CPU s a call, or s until the first list."""

    cost: float
    per_second: float = 0.0
    peak_rss: int = 0
    reply_type: str = ""
    client_busy: float = 0.0


class Running:
    """A warm server with its session, measured window by window."""

    def __init__(self, server, session, first_list):
        self._server, self._session, self.first_list = server, session, first_list

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

    async def window(self, load):
        """One window of calls."""
        async with answering(self._server, 30 + 10 * load.seconds + load.calls / 20):
            await self._session.prepare(load.in_flight)
            cpu, own, wall = self._server.cpu_seconds(), time.process_time(), time.perf_counter()
            count = await self._session.window(calls=load.calls, seconds=load.seconds, in_flight=load.in_flight)
            wall = time.perf_counter() - wall
            busy = (time.process_time() - own) / wall
        return Sample(
            cost=(self._server.cpu_seconds() - cpu) / count,
            per_second=count / wall,
            peak_rss=self._server.peak_rss(),
            reply_type=self._session.reply_type,
            client_busy=busy,
        )

    def start(self):
        """The start of this server as a sample."""
        return Sample(cost=self.first_list, peak_rss=self._server.peak_rss())


async def start(case, **options):
    """Start a fresh server, read its first tools/list, end it."""
    async with Running.open(case, **options) as running:
        return running.start()


@contextlib.asynccontextmanager
async def answering(server, seconds):
    """Turn silence, a lost connection and wrong answers into ServerFailed with the server's stderr."""
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
