"""The tools for the tests of the page: one for each type of argument, result and event."""

from __future__ import annotations

import asyncio
import io
import struct
import wave
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mcp_bridge import (
    Audio,
    CallContext,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    ToolError,
    prompt,
    resource,
    tool,
)

STOCK = {"apples": 12, "pears": 3}


class Address(BaseModel):
    """Where an order goes."""

    street: str
    city: str = "Lisbon"
    floor: int | None = None


class Line(BaseModel):
    """An item of an order."""

    item: Literal["apples", "pears", "plums"] = Field(description="What is on the shelf.")
    amount: Annotated[int, Field(ge=1, le=99)] = 1
    note: str | None = None


class Pickup(BaseModel):
    """The customer fetches the order."""

    kind: Literal["pickup"]
    hour: Annotated[int, Field(ge=8, le=20)]


class Delivery(BaseModel):
    """A courier brings the order."""

    kind: Literal["delivery"]
    address: Address


@tool
def take(item: str, amount: Annotated[int, Field(ge=1)] = 1) -> dict[str, int]:
    """Take items from the shelf and return the remaining stock.

    Args:
        item: What to take, such as apples.
        amount: How many.
    """
    if STOCK.get(item, 0) < amount:
        raise ToolError(f"Only {STOCK.get(item, 0)} {item} left. Take fewer.", code="too_few")
    return {**STOCK, item: STOCK[item] - amount}


@tool
def order(
    lines: list[Line],
    handover: Pickup | Delivery,
    tags: list[Literal["gift", "fragile", "express"]] = [],  # noqa: B006 - it is the default in the schema
    labels: dict[str, str] | None = None,
    is_paid: bool = False,
    can_wait: bool | None = None,
    extra: Any = None,
) -> dict[str, Any]:
    """Place an order and return it as the shop has understood it.

    Args:
        lines: The items.
        handover: How the customer gets them.
        tags: What the packers should know.
        labels: Further labels, by name.
        is_paid: Whether it is paid.
        can_wait: Whether it can wait, if known.
        extra: Anything else.
    """
    return {
        "lines": [line.model_dump() for line in lines],
        "handover": handover.model_dump(),
        "tags": tags,
        "labels": labels,
        "is_paid": is_paid,
        "can_wait": can_wait,
        "extra": extra,
    }


@tool
async def count(to: Annotated[int, Field(ge=1, le=1000)], ctx: CallContext) -> str:
    """Count, reporting progress, until a file named `release` exists.

    Args:
        to: The last number.
    """
    for number in range(1, to):
        await ctx.report_progress(number, to, f"counted {number}")
        await ctx.log("info", f"at {number}")
    release = Path("release")
    while not release.exists():  # noqa: ASYNC110, ASYNC240 - the test is another process
        await asyncio.sleep(0.02)
    return f"Counted to {to}."


@tool
def show() -> list[Any]:
    """Return every kind of content."""
    return [
        Text("A picture, a sound, a link and a file."),
        Image(data=_make_picture(), mime_type="image/png"),
        Audio(data=_make_sound(), mime_type="audio/wav"),
        ResourceLink("https://shop.example/catalog", "The catalog"),
        ResourceLink("javascript:alert(1)", "Not a web page"),
        EmbeddedResource("file:///stock.json", '{"apples": 12}', mime_type="application/json"),
    ]


@tool(name="constructor")
def find_constructor(constructor: str) -> str:
    """Return the name of a tool and of an argument that every object of JavaScript has, too."""
    return constructor


@tool
def break_down() -> str:
    """Raise an unexpected exception."""
    raise RuntimeError("the shelf has collapsed")


@tool
async def reserve(item: str, ctx: CallContext) -> str:
    """Ask the user for how long an item is reserved.

    Args:
        item: What to reserve.
    """
    schema = {
        "type": "object",
        "properties": {
            "days": {"type": "integer", "title": "Days", "minimum": 1, "maximum": 30, "default": 3},
            "email": {"type": "string", "format": "email", "title": "E-mail"},
        },
        "required": ["days"],
    }
    answer = await ctx.ask(f"For how long do you want {item}?", schema)
    return f"Reserved {item} for {answer.content['days']} days." if answer.accepted else f"Did not reserve {item}."


@tool
async def close_shop(ctx: CallContext) -> str:
    """Ask two questions that need only yes or no."""
    if not await ctx.ask("Close the shop?"):
        return "The shop stays open."
    schema = {"type": "object", "properties": {"lights": {"type": "boolean"}}, "required": ["lights"]}
    answer = await ctx.ask("Leave the lights on?", schema)
    return f"Closed, with lights: {answer.content['lights']}."


@tool
async def describe(item: str, ctx: CallContext) -> str:
    """Let the model of the client describe an item.

    Args:
        item: What to describe.
    """
    sample = await ctx.sample(f"Describe {item} in one word.", max_tokens=20, system_prompt="You sell fruit.")
    return f"{item}: {sample.text}"


@tool
async def refill(times: int, ctx: CallContext) -> str:
    """Call another tool many times.

    Args:
        times: How often.
    """
    for number in range(times):
        await ctx.invoke("take", {"item": "apples" if number % 10 else "plums"})
    return f"Refilled {times} times."


@resource("stock://{item}/{unit}{?note}", completions={"item": sorted(STOCK)}, mime_type="application/json")
def read_stock(item: str, unit: Literal["pieces", "boxes"], note: str = "") -> dict[str, Any]:
    """What is left of an item."""
    return {"item": item, "unit": unit, "left": STOCK[item], "note": note}


@resource("notes://today", mime_type="text/markdown")
def read_notes() -> str:
    """What is planned for today."""
    return "# Today\n\n- count the **pears**\n- <b>nothing else</b>"


@prompt(completions={"item": sorted(STOCK)})
def advertise(item: str, tone: Literal["calm", "loud"] = "calm") -> str:
    """Write an advertisement.

    Args:
        item: What to praise.
        tone: How to praise it.
    """
    return f"Praise our {item} in a {tone} tone."


def _make_picture() -> bytes:
    """A PNG of 64 x 32 pixels."""
    rows = b"".join(b"\0" + bytes((4 * x, 8 * y, 160)[c] for x in range(64) for c in range(3)) for y in range(32))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 64, 32, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + chunk_type + data + struct.pack(">I", zlib.crc32(chunk_type + data))
        for chunk_type, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _make_sound() -> bytes:
    """A tenth of a second of silence, as WAV."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 800)
    return file.getvalue()
