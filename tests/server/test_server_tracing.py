"""Calls are traced once OpenTelemetry is set up, and cost no span before."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import anyio
from opentelemetry import trace

from mcp_bridge import ToolRegistry, tool
from mcp_bridge.testing import connect

names = []


class Tracer(trace.NoOpTracer):
    def start_span(self, name, *args, **kwargs):
        names.append(name)
        return super().start_span(name, *args, **kwargs)

    def start_as_current_span(self, name, *args, **kwargs):
        names.append(name)
        return super().start_as_current_span(name, *args, **kwargs)


class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()


registry = ToolRegistry()


@tool(registry=registry)
def double(number: int) -> int:
    return number * 2


async def main():
    async with connect(registry) as client:
        await client.call_tool("double", {"number": 1})
        print(sum("double" in name for name in names))
        trace.set_tracer_provider(Provider())
        names.clear()
        await client.call_tool("double", {"number": 1})
        print(sum("double" in name for name in names) > 0)


anyio.run(main)
"""


def test_calls_are_traced_once_somebody_reads_the_traces() -> None:
    # A process of its own: a tracer provider can be set once.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "True"]), done.stderr
