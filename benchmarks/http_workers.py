"""How many calls per second one and two workers of an HTTP server carry, with two client processes.

Run as `python -m benchmarks.http_workers`. The clients need processors too, so the goal is for an idle machine with at
least four. `--seconds S` is the length of a window, and `--rounds R` the number of windows of each case.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import sys

from benchmarks.client import HttpSession
from benchmarks.process import Command, ServerProcess
from benchmarks.wire import Era
from benchmarks.workloads import WORKLOADS

CLIENTS = 2
IN_FLIGHT = 16
GOAL = 1.7
"""The calls per second of two workers, compared with one."""


def start_server(workers):
    arguments = ("-m", "mcp_bridge", "serve", "benchmarks/servers/tools.py", "--http", "127.0.0.1:0")
    command = Command(arguments=(*arguments, "--workers", str(workers)), http=True, names_its_port=True)
    return ServerProcess(command)


async def run_client(host, path, seconds):
    """Return the calls per second of one client over keep-alive connections."""
    session = HttpSession(Era.MODERN, host, path)
    await session.open_connections(IN_FLIGHT)
    latencies = await session.run_window(WORKLOADS["echo"], calls=1, seconds=seconds, in_flight=IN_FLIGHT)
    return len(latencies) / seconds


def run_client_process(options):
    return asyncio.run(run_client(*options))


def measure_rate(pool, workers, seconds):
    """Return the calls per second of all clients together."""
    server = start_server(workers)
    try:
        host, path = asyncio.run(server.wait_until_listening(60))
        return sum(pool.map(run_client_process, [(host, path, seconds)] * CLIENTS))
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = {1: [], 2: []}
    with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
        for _ in range(options.rounds):
            for workers, results in rates.items():
                results.append(measure_rate(pool, workers, options.seconds))
    medians = {workers: statistics.median(results) for workers, results in rates.items()}
    for workers, rate in medians.items():
        print(f"{workers} workers  {rate:8.0f} calls/s")
    ratio = medians[2] / medians[1]
    print(f"ratio {ratio:.2f}, goal {GOAL}")
    sys.exit(0 if ratio >= GOAL else 1)


if __name__ == "__main__":
    main()
