"""Tools in flight at the end of a server. The waiting ones continue once there is a file named `go`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from pathlib import Path

import anyio

from mcp_bridge import CallContext, tool

GO = Path("go")


def say(words: str) -> None:
    """Print a line on stderr for the test."""
    print(words, file=sys.stderr, flush=True)


async def gone() -> None:
    """Wait for the file."""
    while not GO.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await anyio.sleep(0.01)


@tool
async def waits(name: str) -> str:
    """Wait in the event loop."""
    say(f"begun {name}")
    await gone()
    return f"done {name}"


@tool
def waits_in_a_thread(name: str) -> str:
    """Wait in a thread."""
    say(f"begun {name}")
    while not GO.exists():
        time.sleep(0.01)
    return f"done {name}"


@tool
async def steps(name: str, ctx: CallContext) -> str:
    """Wait, and report progress."""
    await ctx.report_progress(1, 2)
    say(f"begun {name}")
    await gone()
    await ctx.report_progress(2, 2)
    return f"done {name}"


@tool
async def for_ever(name: str) -> None:
    """Run until the call is cancelled."""
    say(f"begun {name}")
    try:
        await anyio.sleep_forever()
    finally:
        say(f"ended {name}")


@tool
def thread_for_ever(name: str) -> None:
    """Hold a thread for ever."""
    say(f"begun {name}")
    threading.Event().wait()


@tool
async def loop_for_ever(name: str) -> None:
    """Hold the event loop for ever."""
    say(f"begun {name}")
    while True:
        time.sleep(0.1)  # noqa: ASYNC251 - that is what it is for


@tool
async def stubborn(name: str) -> None:
    """Ignore cancellation."""
    say(f"begun {name}")
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()


@tool
async def ignores_cancellation(name: str) -> None:
    """Continue however often it is cancelled."""
    say(f"begun {name}")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@tool
async def asks(name: str, ctx: CallContext) -> str:
    """Ask the user."""
    try:
        answer = await ctx.ask("Well?", {"type": "object", "properties": {"well": {"type": "string"}}})
        return f"done {name} {answer}"
    finally:
        say(f"ended {name}")
