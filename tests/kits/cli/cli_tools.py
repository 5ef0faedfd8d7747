"""Tools for the tests of the command line."""

import sys
import threading
import time
from typing import Any

import anyio

from mcp_bridge import CallContext, Image, Text, ToolEntry, ToolError, tool

ANYTHING = {"type": "object"}


@tool(tags=["kind", "first"])
def echo(text: str = "", number: float = 0, flag: bool = False, items: list[Any] = [], thing: Any = None) -> Any:  # noqa: B006
    """Return the arguments.

    Tables show only the first line of this description.
    """
    return {"text": text, "number": number, "flag": flag, "items": items, "thing": thing}


@tool(tags=["kind"])
def loud() -> str:
    """Prints."""
    print("printed by the tool")
    sys.stdout.write("written by the tool\n")
    return "answer"


@tool(tags=["bad"])
def refuses() -> str:
    """Refuses."""
    raise ToolError("there is no such place", code="no_such_place")


@tool(tags=["bad"])
def breaks(text: str = "") -> str:
    """Raises an unexpected error."""
    raise ValueError(f"broken {text}")


@tool
async def steps(ctx: CallContext, message: str = "step", pause: float = 0) -> str:
    """Three steps."""
    for number in range(1, 4):
        await ctx.report_progress(number, 3, f"{message} {number}")
        await ctx.report_progress(number, 3, f"{message} {number}")
        await anyio.sleep(pause)
    await ctx.report_progress(4)
    return "done"


@tool
async def waits() -> str:
    """Reports its start, and never ends."""
    print("begun", flush=True)
    await anyio.sleep_forever()
    return ""


@tool
def blocks() -> str:
    """Reports its start, and blocks its thread forever."""
    print("begun", flush=True)
    while True:
        time.sleep(0.05)


@tool
def leaves_a_thread() -> str:
    """Starts a thread that never ends."""
    threading.Thread(target=threading.Event().wait).start()
    return "left"


blocks_given = ToolEntry(
    "blocks_given", "Text and a picture.", lambda data: [Text("hello"), Image(b"12", "image/png")], {}
)
nothing = ToolEntry("nothing", "", lambda data: None, ANYTHING)
steers = ToolEntry("st\x1b[31meers\nforged", "Steers\x1b[31m.", lambda data: [].pop(), ANYTHING)
endless = ToolEntry(
    "endless", "A default that JSON lacks.", lambda data: 1, {"properties": {"a": {"default": float("inf")}}}
)
