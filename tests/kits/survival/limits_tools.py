"""Tools that take too long, return too much, or hold their slots."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import anyio
from pydantic import Field

from mcp_bridge import Image, Text, ToolEntry, ToolResult, prompt, tool


@prompt(completions={"color": ["red", "green"]})
def paint(color: str = "red", count: int = 1) -> str:
    """Paint something."""
    return f"Paint {count} in {color}."


@tool
async def sleep_long() -> str:
    """Never return."""
    await anyio.sleep_forever()
    return "woken"


@tool
async def other_sleep() -> str:
    """Never return, under another name."""
    await anyio.sleep_forever()
    return "woken"


@tool
async def holds(token: str) -> str:
    """Hold a slot until `release` is called with this token."""
    from survival_tools import RELEASED

    print(f"held {token}", file=sys.stderr, flush=True)
    await RELEASED[token].wait()
    return token


@tool
def letters(count: int) -> str:
    """Return this many characters. Each group of eight has its own position as its text."""
    return "".join(f"{place:08d}" for place in range(0, count, 8))[:count]


@tool
def picture(size: int) -> Image:
    """Return a picture of this many bytes."""
    return Image(b"\x89PNG\r\n\x1a\n" + bytes(size - 8), "image/png")


@tool
def blocks(count: int, text: str) -> list[Any]:
    """Return this many blocks of text."""
    return [Text(text)] * count


@tool
def pictures(count: int) -> list[Any]:
    """Return this many small pictures."""
    return [Image(b"\x89PNG\r\n\x1a\n", "image/png")] * count


@tool
def takes(data: Any) -> str:
    """Take anything."""
    return type(data).__name__


@tool
def several(items: list[int], words: list[Annotated[str, Field(pattern=r"^(a+)+b$")]] | None = None) -> int:
    """Return the number of items."""
    return len(items) + len(words or [])


def beside(data: dict[str, Any]) -> ToolResult:
    """Return a short text with large other fields."""
    much = "x" * data["size"]
    parts = {"structured": {"output": {"much": much}}, "meta": {"meta": {"much": much}, "output": {"a": 1}}}[
        data["where"]
    ]
    return ToolResult(content=[Text("short")], **parts)


SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}, "where": {"type": "string"}}}
BESIDE = ToolEntry("beside", "Much beside the text.", beside, SCHEMA)
DECLARED = ToolEntry("declared", "The same, declared.", beside, SCHEMA, {"type": "object"})
