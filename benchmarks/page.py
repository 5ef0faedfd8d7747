"""What the page adds to a call: CPU per call over ASGI in one process, without a page, with one, and while it is open.

Run as `python -m benchmarks.page`. Every round measures all cases in turn; the medians of the rounds are printed, with
their ratio to a server without a page. The goal is at most 1.05 while no page is open. Exit code 1: it is missed.
"""

import argparse
import asyncio
import contextlib
import gc
import statistics
import sys
import time

import orjson

from benchmarks.servers.offer import INPUT_SCHEMA
from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.app.page import build_page
from mcp_bridge.app.serve import to_bridge
from mcp_bridge.runtime.event_loop import make_loop_factory
from mcp_bridge.transports.http.app import BridgeApp, HttpOptions
from mcp_bridge.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION

VERSION = "2026-07-28"
LIMIT = 1.05
ENVELOPE = {PROTOCOL_VERSION: VERSION, CLIENT_INFO: {"name": "bench", "version": "1"}, CLIENT_CAPABILITIES: {}}
PARAMS = {"name": "echo", "arguments": {"text": "hello"}, "_meta": ENVELOPE}
BODY = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS})
HEADERS = [
    (b"host", b"127.0.0.1"),
    (b"accept", b"application/json, text/event-stream"),
    (b"content-type", b"application/json"),
    (b"mcp-protocol-version", VERSION.encode()),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"echo"),
]


async def echo(data):
    return data["text"]


def make_app(*, has_page):
    registry = ToolRegistry()
    registry.register(ToolEntry("echo", "Answers.", echo, INPUT_SCHEMA))
    bridge = to_bridge(registry)
    page = build_page(bridge) if has_page else None
    return BridgeApp(bridge.endpoint, HttpOptions(page=page), around=bridge.run_sources)


def make_scope(method, path, headers):
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}


async def receive_call():
    return {"type": "http.request", "body": BODY, "more_body": False}


async def call(app, count):
    """Call the tool, one call after the other."""
    sent = []

    async def send(message):
        sent.append(message)

    for _ in range(count):
        sent.clear()
        await app(make_scope("POST", "/mcp", HEADERS), receive_call, send)
    assert b"hello" in sent[1]["body"], sent


async def follow_events(app, opened):
    """Read the events of the page for ever."""

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        opened.set()

    await app(make_scope("GET", "/page/events", [(b"host", b"127.0.0.1")]), receive, send)


async def measure(*, calls, rounds):
    """Return the seconds of CPU per call of each case, round by round."""
    apps = {name: make_app(has_page=name != "no page") for name in ("no page", "page", "open page")}
    samples = {name: [] for name in apps}
    async with contextlib.AsyncExitStack() as stack:
        for app in apps.values():
            await stack.enter_async_context(app.lifespan())
        opened = asyncio.Event()
        reader = asyncio.create_task(follow_events(apps["open page"], opened))
        await opened.wait()
        gc.freeze()  # as `serve` does
        for number in range(rounds + 1):
            for name, app in apps.items():
                gc.collect()
                started = time.process_time()
                await call(app, calls)
                if number:  # the first round warms up
                    samples[name].append((time.process_time() - started) / calls)
        reader.cancel()
    return samples


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=2000, help="calls of each case in a round")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=make_loop_factory()) as runner:
        samples = runner.run(measure(calls=options.calls, rounds=options.rounds))
    base = samples["no page"]
    ratios = {name: statistics.median(a / b for a, b in zip(one, base, strict=True)) for name, one in samples.items()}
    for name, ratio in ratios.items():
        print(f"{name:12}{statistics.median(samples[name]) * 1e6:8.1f} us{ratio:8.3f}")
    sys.exit(ratios["page"] > LIMIT)


if __name__ == "__main__":
    main()
