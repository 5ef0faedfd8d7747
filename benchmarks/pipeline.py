"""What the pipeline adds to a call: CPU per call in one process, over awaiting the bare handler.

Run as `python -m benchmarks.pipeline`. Every round measures all cases in turn, so what the machine does meanwhile hits
all of them alike; the median of the rounds is printed. `over` is what a case costs beyond its bare handler.
"""

import argparse
import asyncio
import gc
import statistics
import time

from benchmarks.servers.offer import INPUT_SCHEMA
from mcp_bridge import ToolCall, ToolEntry, ToolRegistry, tool
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._protocol.wire.tools import to_mcp, to_wire
from mcp_bridge._runtime.event_loop import make_loop_factory
from mcp_bridge._server.truncation import ResultTruncator
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.middleware import Pipeline, Stage

VERSION = "2026-07-28"
TEXT = {"text": "hello"}
SCALARS = {"text": "hello", "count": 3, "loud": True}
OUTPUT_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def echo(data):
    return data["text"]


async def echo_object(data):
    return {"text": data["text"]}


def echo_in_thread(data):
    return data["text"]


@tool
async def typed(text: str) -> str:
    return text


@tool
async def typed_scalars(text: str, count: int, loud: bool = False) -> str:
    return text


@tool
async def typed_list(texts: list[str]) -> str:
    return texts[0]


class Passing:
    """Middleware that does nothing."""

    def __init__(self, stage):
        self.stage = stage

    async def __call__(self, call, ctx, call_next):
        return await call_next(call, ctx)


def entry(handler, output_schema=None):
    return ToolEntry("echo", "Answers.", handler, INPUT_SCHEMA, output_schema or {})


def dispatching(entry, arguments, *, middleware=(), render=False):
    """An async function that dispatches calls of a tool, one after the other."""
    registry = ToolRegistry(pipeline=Pipeline(middleware))
    registry.register(entry)
    name, wire = entry.name, to_wire(entry.to_tool_definition())
    truncator = ResultTruncator(MemoryStore, text_limit=100_000, ttl=60)
    declared = wire.output_schema is not None

    async def run(count):
        dispatch = registry.dispatch
        for _ in range(count):
            result = await dispatch(ToolCall(id="1", name=name, arguments=arguments), RunningCall())
            if render:
                size = result.encoded.size if result.encoded is not None else None
                await truncator.truncate(to_mcp(result, wire, VERSION), VERSION, declared=declared, output_size=size)
        assert result.success, result.error

    return run


def awaiting(handler, *args, **kwargs):
    """An async function that awaits a bare handler, one call after the other."""

    async def run(count):
        for _ in range(count):
            await handler(*args, **kwargs)

    return run


def hopping(function, *args):
    """An async function that runs a function in asyncio's own executor."""

    async def run(count):
        loop = asyncio.get_running_loop()
        for _ in range(count):
            await loop.run_in_executor(None, function, *args)

    return run


def constructing():
    async def run(count):
        for _ in range(count):
            ToolCall(id="1", name="echo", arguments=TEXT)
            RunningCall()

    return run


def build_cases():
    """Cases by name, with the name of the bare case that each is compared with."""
    five = [Passing(stage) for stage in (*Stage, Stage.DECIDE)]
    return {
        "bare handler": (awaiting(echo, TEXT), ""),
        "bare typed handler": (awaiting(typed, **TEXT), ""),
        "bare handler in asyncio's executor": (hopping(echo_in_thread, TEXT), ""),
        "call and context": (constructing(), ""),
        "defaults": (dispatching(entry(echo), TEXT), "bare handler"),
        "output schema": (dispatching(entry(echo_object, OUTPUT_SCHEMA), TEXT), "bare handler"),
        "typed: one text": (dispatching(typed.tool_entry, TEXT), "bare typed handler"),
        "typed: three scalars": (dispatching(typed_scalars.tool_entry, SCALARS), "bare typed handler"),
        "typed: a list": (dispatching(typed_list.tool_entry, {"texts": ["hello"]}), "bare typed handler"),
        "five middlewares": (dispatching(entry(echo), TEXT, middleware=five), "bare handler"),
        "defaults, rendered": (dispatching(entry(echo), TEXT, render=True), "bare handler"),
        "output schema, rendered": (dispatching(entry(echo_object, OUTPUT_SCHEMA), TEXT, render=True), "bare handler"),
        "sync handler": (dispatching(entry(echo_in_thread), TEXT), "bare handler in asyncio's executor"),
    }


async def measure(cases, *, calls, rounds):
    """Seconds of CPU per call, by the case's name: the median of the rounds."""
    samples = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, (run, _) in cases.items():
            gc.collect()
            started = time.process_time()
            await run(calls)
            if number:  # the first round warms up
                samples[name].append((time.process_time() - started) / calls)
    return {name: statistics.median(values) for name, values in samples.items()}


def print_report(cases, costs):
    print(f"{'':36}{'µs':>8}{'over':>8}{'ratio':>8}")
    for name, (_, base) in cases.items():
        cost = costs[name] * 1e6
        bare = costs[base] * 1e6 if base else cost
        compared = f"{cost - bare:8.2f}{cost / bare:8.1f}" if base else ""
        print(f"{name:36}{cost:8.2f}{compared}")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=5000, help="calls of each case in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name contains this text, and the bare ones")
    options = parser.parse_args()
    cases = {name: case for name, case in build_cases().items() if options.only in name or not case[1]}
    with asyncio.Runner(loop_factory=make_loop_factory()) as runner:
        costs = runner.run(measure(cases, calls=options.calls, rounds=options.rounds))
    print_report(cases, costs)


if __name__ == "__main__":
    main()
