"""The tools of the real server processes. During the import they write to standard output in every possible way."""

import os
import subprocess
import sys
from pathlib import Path

import anyio

from mcp_bridge import CallContext, tool


def noise(where: str) -> str:
    """Write to standard output in every way. The client must not receive any of it."""
    print(f"noise: print {where}")
    sys.stdout.write(f"noise: write {where}\n")
    sys.stdout.flush()
    os.write(1, f"noise: descriptor {where}\n".encode())
    subprocess.run(["/bin/echo", f"noise: child {where}"], check=True)
    subprocess.run(["/bin/cat"], check=True)
    return sys.stdin.read()


AT_IMPORT = noise("at import")


@tool
def noisy() -> str:
    """Makes noise."""
    return f"read {noise('in a call')!r} and {AT_IMPORT!r}"


@tool
async def noisy_async() -> str:
    """Makes noise."""
    return f"read {noise('in an async call')!r}"


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def gate(fifo: str) -> str:
    """Run until a test writes to the FIFO, and return the written text."""
    return Path(fifo).read_text()


@tool
async def steps(count: int, ctx: CallContext) -> str:
    """Reports each step, every other one twice."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count)
        await ctx.report_progress(step - 0.5, count)
    return "done"


@tool
async def forever(diary: str) -> None:
    """Writes into its diary when it begins and how it ends."""
    write = Path(diary).write_text
    write("begun")
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        write(type(error).__name__)
        raise
