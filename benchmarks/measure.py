"""One measurement: a window of calls or lists on a warm server, or the start and the streams of a fresh one."""

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass

import orjson

from benchmarks.client import HttpSession, StdioSession
from benchmarks.process import ServerFailed, ServerProcess
from benchmarks.wire import WrongResponse
from benchmarks.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The minimum of a window: it lasts until both the calls and the seconds are reached."""

    calls: int
    seconds: float


START_LIMIT = 60.0
"""Seconds that a server may take until its first response to tools/list."""
FIRST_CALLS = 100
"""How many calls a fresh server receives before its memory is read, one at a time."""
STREAMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of one measurement.

    `cost` is the server's CPU seconds per call or list, or the seconds from the spawn to the first list. `latency_p50`
    and `latency_p99` are seconds from sending a request to its response, at the client. `memory` is in bytes, of the
    server after its first calls or of one stream. `client_busy` is the share of the time that the client used its core.
    """

    cost: float = 0.0
    per_second: float = 0.0
    latency_p50: float = 0.0
    latency_p99: float = 0.0
    memory: float = 0.0
    response_type: str = ""
    client_busy: float = 0.0


class RunningServer:
    """A warm server with its session, measured window by window."""

    def __init__(self, process, session, first_list):
        self._process, self._session, self._first_list = process, session, first_list

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, case, **options):
        """Start the server of `case`, initialize its session and check its tools/list. Raises ServerFailed."""
        process = ServerProcess(case.make_command(**options))
        session_class = HttpSession if case.transport == "http" else StdioSession
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with report_failures(process, START_LIMIT):
                    session = await stack.enter_async_context(session_class.open(process, case.era))
                    await session.initialize()
                    page = await session.list_page()
                    first_list = time.perf_counter() - process.spawned
                    await check_tools(session, page, case.tools)
                yield cls(process, session, first_list)
        finally:
            process.end()

    def end(self):
        """End the process of the server."""
        self._process.end()

    async def measure_window(self, case, load):
        """Measure one window of calls or lists."""
        async with report_failures(self._process, 30 + 10 * load.seconds + load.calls / 20):
            await self._session.open_connections(case.in_flight)
            server_cpu, client_cpu = self._process.read_cpu_seconds(), time.process_time()
            started = time.perf_counter()
            if case.kind == "list":
                latencies = await self._read_lists(case.tools, load.seconds)
            else:
                latencies = await self._session.run_window(
                    WORKLOADS[case.workload], calls=load.calls, seconds=load.seconds, in_flight=case.in_flight
                )
            wall = time.perf_counter() - started
            client_cpu = time.process_time() - client_cpu
            server_cpu = self._process.read_cpu_seconds() - server_cpu
        return Sample(
            cost=server_cpu / len(latencies),
            per_second=len(latencies) / wall,
            latency_p50=get_percentile(latencies, 50),
            latency_p99=get_percentile(latencies, 99),
            response_type=self._session.response_type,
            client_busy=client_cpu / wall,
        )

    async def measure_start(self):
        """Return the start of this fresh server as a sample, with its memory after the first calls."""
        await self._make_first_calls()
        return Sample(cost=self._first_list, memory=self._process.read_memory())

    async def measure_streams(self):
        """Open idle listen streams and return the memory of one as a sample."""
        await self._make_first_calls()
        before = self._process.read_memory()
        async with report_failures(self._process, START_LIMIT):
            await self._session.listen(STREAMS)
        memory = (self._process.read_memory() - before) / STREAMS
        return Sample(memory=memory, response_type=self._session.response_type)

    async def _make_first_calls(self):
        async with report_failures(self._process, START_LIMIT):
            await self._session.open_connections(1)
            await self._session.run_window(WORKLOADS["echo"], calls=FIRST_CALLS, seconds=0, in_flight=1)

    async def _read_lists(self, tools, seconds):
        latencies = []
        end = time.perf_counter() + seconds
        while not latencies or time.perf_counter() < end:
            started = time.perf_counter()
            await check_tools(self._session, await self._session.list_page(), tools)
            latencies.append(time.perf_counter() - started)
        return latencies


def get_percentile(values, percent):
    """Return the smallest value that at least `percent` percent of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


async def measure_fresh(case, **options):
    """Start a fresh server, measure its start or its streams, and end it."""
    async with RunningServer.open(case, **options) as server:
        if case.kind == "streams":
            return await server.measure_streams()
        return await server.measure_start()


@contextlib.asynccontextmanager
async def report_failures(process, seconds):
    """Turn a timeout, a lost connection and wrong responses into ServerFailed with the server's stderr."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise process.make_error(f"no response within {seconds:.0f} s") from error
    except (OSError, WrongResponse, LookupError, orjson.JSONDecodeError) as error:
        # The process may be about to exit, and its exit code and stderr are complete a moment later.
        await asyncio.sleep(0.2)
        raise process.make_error(f"{type(error).__name__}: {error}") from error


async def check_tools(session, page, expected):
    """Read the remaining pages of tools/list. Raises ServerFailed unless `expected` tools are listed."""
    tools, cursor = page
    names = {tool["name"] for tool in tools}
    while cursor is not None:
        tools, cursor = await session.list_page(cursor)
        names |= {tool["name"] for tool in tools}
    if len(names) != expected:
        raise ServerFailed(f"lists {len(names)} tools, not {expected}")
