"""Calls and tasks on two servers, two workers and a Redis, with random kills of all of them.

    python -m tests.kits.scale.proof [--calls 10000] [--tasks 1000] [--short]

No acknowledged call or task is lost, and a repeated one is marked as such. Needs Linux and redis-server.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from tests.client.raw_client import Json
from tests.kits.constants import ENVELOPE, HTTP_HEADERS, STATELESS, TIMEOUT
from tests.kits.redis_server import RedisServer
from tests.kits.scale.cluster import FINAL, Cluster, Node, Server

TOOLS = """
import asyncio
from mcp_bridge import CallContext, tool

@tool
async def echo(number: int) -> int:
    "Return the number."
    return number

@tool
async def work(number: int, ctx: CallContext) -> int:
    "Work for 100 ms, and log that."
    with open("begun", "a") as log:
        log.write(f"{number}\\n")
    await asyncio.sleep(0.1)
    return number
"""
SETTINGS = {"tasks": {"workers_only": True, "concurrency": 4, "most": 100_000, "lease": 2,
                      "tools": {"echo": {"mode": "forbidden"}}}}  # fmt: skip
CLIENTS = 8
PAUSE = (0.1, 0.8)
"""Seconds between two kills."""


class Fleet:
    """Two servers and two workers, replaced after each kill."""

    def __init__(self, cluster: Cluster, redis: RedisServer) -> None:
        self._cluster, self._redis = cluster, redis
        self.servers: list[Server] = [cluster.start_server() for _ in range(2)]
        self.workers: list[Node] = [cluster.start_worker() for _ in range(2)]
        self.kills: Counter[str] = Counter()
        # These are the parameters of repeated requests.
        self.repeated: list[Json] = []
        self._is_done = threading.Event()

    def request(self, method: str, name: str, /, **params: Any) -> Json:
        """Send a request to any server, again to another one when the server ends or cannot reach Redis."""
        until = time.monotonic() + TIMEOUT
        while True:
            # RuntimeError means that the client was just closed.
            with suppress(httpx2.TransportError, RuntimeError):
                answer = random.choice(self.servers).request(method, name, **params)
                if "error" not in answer or answer["error"]["code"] not in (-32603, -32000):
                    return answer
            assert time.monotonic() < until, f"{method} of {name} never got a response"
            self.repeated.append(params)
            time.sleep(0.05)

    @contextmanager
    def killing(self) -> Iterator[None]:
        """Kill a random process again and again inside the block, Redis among them, and start another one."""
        thread = threading.Thread(target=self._kill_until_done)
        thread.start()
        try:
            yield
        finally:
            self._is_done.set()
            thread.join()

    def _kill_until_done(self) -> None:
        # A short run may kill only these three.
        first = random.sample(["server", "worker", "redis"], 3)
        while not self._is_done.wait(random.uniform(*PAUSE)):
            target = first.pop() if first else random.choices(["server", "worker", "redis"], [4, 4, 1])[0]
            self.kills[target] += 1
            place = random.randrange(2)
            if target == "server":
                self.servers[place].kill()
                self.servers[place] = self._cluster.start_server()
            elif target == "worker":
                self.workers[place].kill()
                self.workers[place] = self._cluster.start_worker()
            else:
                self._redis.kill()
                time.sleep(0.3)
                self._redis.start()


def check_calls(fleet: Fleet, count: int) -> str:
    """Call an ordinary tool `count` times, and check that each call returns its own argument."""

    def call(number: int) -> None:
        result = fleet.request("tools/call", "echo", name="echo", arguments={"number": number})["result"]
        assert result["structuredContent"] == number, result

    run_all(call, count)
    return f"{count:,} calls: each has its own result"


def check_tasks(fleet: Fleet, count: int, log: Path) -> str:
    """Create `count` tasks, fetch their results, and check that repeated runs are marked."""
    runs: dict[int, int] = {}

    def follow(number: int) -> None:
        created = fleet.request("tools/call", "work", name="work", arguments={"number": number})["result"]
        until = time.monotonic() + TIMEOUT
        while True:
            task = fleet.request("tasks/get", created["taskId"], taskId=created["taskId"])["result"]
            if task["status"] in FINAL:
                break
            assert time.monotonic() < until, task
            time.sleep(0.05)
        assert task["status"] == "completed", task
        assert task["result"]["structuredContent"] == number, task
        runs[number] = task["result"].get("_meta", {}).get("mcp-bridge/runs", 1)

    run_all(follow, count)
    starts = Counter(map(int, log.read_text().split()))
    unreported = {number for number, times in starts.items() if times > runs[number]}
    # A request without a response was sent again, so its task may exist twice.
    recreated = {params["arguments"]["number"] for params in fleet.repeated if params.get("name") == "work"}
    assert unreported <= recreated, f"these ran more often than their results report: {sorted(unreported - recreated)}"
    repeated = sum(times > 1 for times in runs.values())
    return f"{count:,} tasks: all completed, {repeated} report several runs, {len(unreported)} were created again"


def check_throughput(cluster: Cluster, server: Server, count: int, least: float) -> str:
    """Compare the time of two workers with that of one, which must be at least `least` times as long."""

    def measure(rounds: int = 3) -> float:
        """Return the time of the fastest round, because other processes on the machine can only slow a round down."""
        return min(run_round() for _ in range(rounds))

    def run_round() -> float:
        begin = time.monotonic()
        tasks = [server.create("work", number=number) for number in range(count)]
        for task in tasks:
            server.fetch(task)
        return time.monotonic() - begin

    first = cluster.start_worker()
    # Warm up the code of both cases.
    measure(1)
    alone = measure()
    cluster.start_worker()
    both = measure()
    assert alone / both >= least, f"{alone:.2f} s with one worker, {both:.2f} s with two"
    assert first.process.poll() is None
    return f"{count} tasks of 100 ms: {alone:.2f} s with one worker, {both:.2f} s with two ({alone / both:.2f} times)"


def check_changes(cluster: Cluster, servers: list[Server]) -> str:
    """Change the file of the tools, and check that clients of both servers receive a notification."""
    with ThreadPoolExecutor() as pool:
        ready = threading.Barrier(len(servers) + 1)
        notifications = [pool.submit(wait_for_change, server, ready) for server in servers]
        ready.wait(TIMEOUT)
        file = cluster.folder / "tools.py"
        file.write_text(file.read_text() + '\n@tool\ndef other() -> int:\n    "Return one."\n    return 1\n')
        for notification in notifications:
            notification.result(TIMEOUT)
    return "a changed file of tools: clients of both servers get list_changed"


def wait_for_change(server: Server, ready: threading.Barrier) -> None:
    """Listen at a server until it reports changed tools."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}
    headers = {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS, "Mcp-Method": "subscriptions/listen"}
    with server.http.stream("POST", "/mcp", json=message, headers=headers) as response:
        for line in response.iter_lines():
            if "notifications/subscriptions/acknowledged" in line:
                ready.wait(TIMEOUT)
            if "notifications/tools/list_changed" in line:
                return
    raise AssertionError("the stream ended without a notification")


def run_all(work: Callable[[int], None], count: int) -> None:
    """Do the work for each number, by a few concurrent clients."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        for future in [pool.submit(work, number) for number in range(count)]:
            future.result()


def main() -> None:
    """Run all checks. Exits with 1 and a traceback at the first failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--short", action="store_true", help="500 calls and 200 tasks")
    options = parser.parse_args()
    calls, tasks = (500, 200) if options.short else (options.calls, options.tasks)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scale") as folder:
        (data := Path(folder, "redis")).mkdir()
        redis = RedisServer(data)
        redis.start()
        try:
            with make_cluster(Path(folder, "changes"), redis) as cluster:
                servers = [cluster.start_server(), cluster.start_server()]
                print(check_changes(cluster, servers), flush=True)
            with make_cluster(Path(folder, "kills"), redis) as cluster:
                fleet = Fleet(cluster, redis)
                with fleet.killing():
                    print(check_calls(fleet, calls), flush=True)
                    print(check_tasks(fleet, tasks, cluster.folder / "begun"), flush=True)
                print(f"killed meanwhile: {dict(fleet.kills)}", flush=True)
            with make_cluster(Path(folder, "speed"), redis) as cluster:
                print(check_throughput(cluster, cluster.start_server(), 80, 1.0 if options.short else 1.8), flush=True)
        finally:
            redis.kill()
    print(f"{time.monotonic() - begin:.0f} s, {os.cpu_count()} CPUs")


def make_cluster(folder: Path, redis: RedisServer) -> Cluster:
    folder.mkdir()
    return Cluster(folder, redis.url, TOOLS, name=folder.name, **SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
