"""The CPU that the pipeline adds to a call, in one process, compared with awaiting the bare handler.

Run as `python -m benchmarks.pipeline`. Every round measures all cases in turn, so other work on the machine affects all
of them alike, and the median of the rounds is printed. `over` is the cost of a case minus that of its bare handler.
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


class PassThrough:
    """Middleware without effect."""

    def __init__(self, stage):
        self.stage = stage

    async def __call__(self, call, ctx, call_next):
        return await call_next(call, ctx)


def make_entry(handler, output_schema=None):
    return ToolEntry("echo", "Answers.", handler, INPUT_SCHEMA, output_schema or {})


def make_dispatch(entry, arguments, *, middleware=(), render=False):
    """Return an async function that dispatches calls of a tool, one after the other."""
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


def make_await(handler, *args, **kwargs):
    """Return an async function that awaits a bare handler, one call after the other."""

    async def run(count):
        for _ in range(count):
            await handler(*args, **kwargs)

    return run


def make_thread_call(function, *args):
    """Return an async function that runs a function in asyncio's executor."""

    async def run(count):
        loop = asyncio.get_running_loop()
        for _ in range(count):
            await loop.run_in_executor(None, function, *args)

    return run


def make_contexts():
    """Return an async function that makes the call and the context, and does not dispatch."""

    async def run(count):
        for _ in range(count):
            ToolCall(id="1", name="echo", arguments=TEXT)
            RunningCall()

    return run


def build_cases():
    """Return the cases by name, each with the name of its bare case, which is empty for the bare cases."""
    five = [PassThrough(stage) for stage in (*Stage, Stage.DECIDE)]
    return {
        "bare handler": (make_await(echo, TEXT), ""),
        "bare typed handler": (make_await(typed, **TEXT), ""),
        "bare handler in asyncio's executor": (make_thread_call(echo_in_thread, TEXT), ""),
        "call and context": (make_contexts(), ""),
        "defaults": (make_dispatch(make_entry(echo), TEXT), "bare handler"),
        "output schema": (make_dispatch(make_entry(echo_object, OUTPUT_SCHEMA), TEXT), "bare handler"),
        "typed: one text": (make_dispatch(typed.tool_entry, TEXT), "bare typed handler"),
        "typed: three scalars": (make_dispatch(typed_scalars.tool_entry, SCALARS), "bare typed handler"),
        "typed: a list": (make_dispatch(typed_list.tool_entry, {"texts": ["hello"]}), "bare typed handler"),
        "five middlewares": (make_dispatch(make_entry(echo), TEXT, middleware=five), "bare handler"),
        "defaults, rendered": (make_dispatch(make_entry(echo), TEXT, render=True), "bare handler"),
        "output schema, rendered": (
            make_dispatch(make_entry(echo_object, OUTPUT_SCHEMA), TEXT, render=True),
            "bare handler",
        ),
        "sync handler": (make_dispatch(make_entry(echo_in_thread), TEXT), "bare handler in asyncio's executor"),
    }


async def measure(cases, *, calls, rounds):
    """Return the seconds of CPU per call by the name of the case: the median of the rounds."""
    samples = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, (run, _) in cases.items():
            gc.collect()
            started = time.process_time()
            await run(calls)
            # Round 0 warms up.
            if number:
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
