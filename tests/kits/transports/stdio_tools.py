"""Tools that real server processes serve in the tests; at import they make all the noise they can."""

import os
import subprocess
import sys
from pathlib import Path

import anyio

from mcp_bridge import CallContext, tool


def noise(where: str) -> str:
    """Everything that must not reach the client; what standard input says."""
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
    """Runs until whoever writes to the FIFO lets go of it; answers with what they wrote."""
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
