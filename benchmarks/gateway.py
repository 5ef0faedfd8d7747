"""CPU per call of gateways in front of one server, and the start with many: `python -m benchmarks.gateway`.

`--mcp-proxy PYTHON` and `--fastmcp PYTHON` name the interpreters of environments with these peers. Without the option,
the peer is not measured. All processes of a gateway count, but not the server behind it. `floor` over HTTP is a bare
ASGI app that responds itself, so no gateway over HTTP can cost less. `floor` on stdio only gives each message another
id. `worker` and `tools` have the same tools in worker processes and in a server on stdio: there all processes count,
with one call in flight, because a worker has no more.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.client import HttpSession, StdioSession
from benchmarks.measure import report_failures
from benchmarks.process import ROOT, Command, ServerProcess, read_cpu
from benchmarks.servers.offer import ECHO
from benchmarks.wire import Era
from benchmarks.workloads import WORKLOADS

UPSTREAM = (sys.executable, "-m", "benchmarks.servers.floor_stdio")
SLOW = (sys.executable, "-I", "-S", str(ROOT / "benchmarks/servers/slow_server.py"))
EXECUTE = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
IN_FLIGHT = 32
MANY = 20
GOALS = {"mcp-proxy": 20, "fastmcp": 40}
"""How many times as much as through the bridge a call through each peer should cost, at least."""
FLOOR_GOAL = 2
"""The limit for a call through the bridge on stdio, as a multiple of the floor."""
WORKER_GOAL = 1.5
"""The limit for a call into a worker, as a multiple of a call to a server on stdio."""
TOOLS = str(ROOT / "benchmarks/servers/tools.py")
ISOLATED = str(ROOT / "benchmarks/servers/isolated.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One gateway, with the transport of its client. Its server is on stdio."""

    name: str
    http: bool
    arguments: tuple[str, ...]
    in_flight: int = IN_FLIGHT

    def __str__(self):
        return f"{self.name} {'http' if self.http else 'stdio'}"

    @property
    def command(self):
        return Command(arguments=self.arguments, http=self.http, names_its_port=self.name == "bridge")


def list_gateways(folder, peers):
    """Yield the gateways to measure."""
    settings = write_settings(folder / "one.json", {"one": {"command": UPSTREAM[0], "args": UPSTREAM[1:]}})
    for http in (False, True):
        address = ("--http", "127.0.0.1:0") if http else ()
        yield Gateway(name="bridge", http=http, arguments=("-m", "mcp_bridge", "serve", str(settings), *address))
        if peers.fastmcp:
            script = (peers.fastmcp, str(ROOT / "benchmarks/servers/fastmcp_proxy.py"))
            options = ("--http", "PORT") if http else ()
            yield Gateway(name="fastmcp", http=http, arguments=("-c", EXECUTE, *script, *options, *UPSTREAM))
    yield Gateway(name="floor", http=False, arguments=("-m", "benchmarks.servers.floor_relay", *UPSTREAM))
    yield Gateway(name="floor", http=True, arguments=("-m", "benchmarks.servers.floor_http", "--http", "PORT"))
    tools = {"command": sys.executable, "args": ["-m", "mcp_bridge", "serve", TOOLS]}
    yield Gateway(name="worker", http=False, arguments=("-m", "mcp_bridge", "serve", ISOLATED), in_flight=1)
    settings = write_settings(folder / "tools.json", {"tools": tools})
    yield Gateway(name="tools", http=False, arguments=("-m", "mcp_bridge", "serve", str(settings)), in_flight=1)
    if peers.mcp_proxy:
        script = (peers.mcp_proxy, "-m", "mcp_proxy", "--log-level", "ERROR", "--pass-environment", "--port", "PORT")
        yield Gateway(name="mcp-proxy", http=True, arguments=("-c", EXECUTE, *script, "--", *UPSTREAM))


def write_settings(file, servers):
    """Write a client's file with these servers."""
    servers = {name: {**server, "cwd": str(ROOT), "prefix": ""} for name, server in servers.items()}
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


class RunningGateway:
    """A warm gateway, measured window by window."""

    def __init__(self, server, session, in_flight):
        self._server, self._session, self._in_flight = server, session, in_flight

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, gateway, era):
        """Start a gateway and wait until it lists the tools of its server."""
        server = ServerProcess(gateway.command)
        try:
            async with contextlib.AsyncExitStack() as stack, report_failures(server, 30):
                opening = (HttpSession if gateway.http else StdioSession).open(server, era)
                session = await stack.enter_async_context(opening)
                await session.initialize()
                while ECHO not in {tool["name"] for tool in (await session.list_page())[0]}:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                yield cls(server, session, gateway.in_flight)
        finally:
            server.end()

    async def measure(self, calls, seconds):
        """Return the CPU microseconds of the gateway per call."""
        await self._session.open_connections(self._in_flight)
        before = self._read_cpu()
        latencies = await self._session.run_window(
            WORKLOADS["echo"], calls=calls, seconds=seconds, in_flight=self._in_flight
        )
        return (self._read_cpu() - before) / len(latencies) * 1e6

    def _read_cpu(self):
        gateway = psutil.Process(self._server.popen.pid)
        processes = [gateway, *gateway.children(recursive=True)]
        return sum(read_cpu(process) for process in processes if not is_upstream(process))


def is_upstream(process):
    """Return whether a process is the server behind the gateway."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return words[1:3] == list(UPSTREAM[1:])
    return False


async def measure_calls(gateways, options):
    """Return the microseconds of each gateway in each round, in turn."""
    figures = {str(gateway): [] for gateway in gateways}
    for _, gateway in itertools.product(range(options.rounds), gateways):
        try:
            async with asyncio.timeout(60), RunningGateway.open(gateway, Era.HANDSHAKE) as running:
                await running.measure(200, 0.2)
                figures[str(gateway)].append(await running.measure(options.calls, options.seconds))
        except Exception as error:
            print(f"{gateway} failed: {error}", file=sys.stderr)
    return {name: values for name, values in figures.items() if values}


async def measure_start(folder, count, delay):
    """Return the seconds until a gateway in front of `count` slow servers lists the tools of all."""
    servers = {f"server{number}": {"command": SLOW[0], "args": [*SLOW[1:], str(delay), f"tool{number}"]}
               for number in range(count)}  # fmt: skip
    settings = write_settings(folder / "many.json", servers)
    server = ServerProcess(Command(arguments=("-m", "mcp_bridge", "serve", str(settings))))
    try:
        async with report_failures(server, 30), StdioSession.open(server, Era.MODERN) as session:
            # A client can only ask again.
            while len((await session.list_page())[0]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return time.perf_counter() - server.spawned
    finally:
        server.end()


def report_calls(figures):
    """Print the cost of each gateway, compared with the bridge. Return whether the goals are met."""
    is_met = True
    costs = {name: statistics.median(values) for name, values in figures.items()}
    for name, cost in costs.items():
        peer, transport = name.split()
        ratio = cost / costs[f"bridge {transport}"]
        goal = GOALS.get(peer)
        verdict = "" if goal is None else f"  {ratio:.1f} times the bridge (goal: at least {goal})"
        print(f"{name:18} {cost:8.0f} us a call{verdict}")
        is_met = is_met and (goal is None or ratio >= goal)
    if costs.keys() >= {"bridge stdio", "floor stdio"}:
        ratio = costs["bridge stdio"] / costs["floor stdio"]
        print(f"a call through the bridge on stdio costs {ratio:.2f} times the floor (goal: at most {FLOOR_GOAL})")
        is_met = is_met and ratio <= FLOOR_GOAL
    if not costs.keys() >= {"worker stdio", "tools stdio"}:
        return is_met
    ratio = costs["worker stdio"] / costs["tools stdio"]
    print(f"a call into a worker costs {ratio:.2f} times one to a server on stdio (goal: at most {WORKER_GOAL})")
    return is_met and ratio <= WORKER_GOAL


async def run(options):
    """Measure everything and return the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        is_met = report_calls(await measure_calls(list(list_gateways(folder, options)), options))
        starts = {
            count: [await measure_start(folder, count, 0.5) for _ in range(options.rounds)] for count in (1, MANY)
        }
    single, many = (statistics.median(starts[count]) for count in (1, MANY))
    print(
        f"start, servers that wait 0.5 s: {single:.2f} s with one, {many:.2f} s with {MANY}: {many / single:.2f} times"
    )
    return 0 if is_met else 1


def main():
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--mcp-proxy", help="the Python of an environment with mcp-proxy")
    parser.add_argument("--fastmcp", help="the Python of an environment with FastMCP")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=2.0)
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
