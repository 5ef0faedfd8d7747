"""Tools, resources and prompts with every kind of result. Tests compare them in the bridge and in a worker."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import pathlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio.lowlevel
from pydantic import BaseModel, Field

from mcp_bridge import (
    Audio,
    EmbeddedResource,
    Image,
    Message,
    ResourceLink,
    Text,
    ToolError,
    ToolResult,
    prompt,
    resource,
    tool,
)
from mcp_bridge._contracts import errors
from mcp_bridge.tool_use import Result

PNG = b"\x89PNG\r\n\x1a\n0000"


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place."""

    x: int
    label: str = "here"
    inner: list[int] = field(default_factory=lambda: [1, 2])


class Model(BaseModel):
    """A model with an alias for its field."""

    row: int = Field(alias="theRow", default=4)


def cycle() -> list[Any]:
    """A list with itself as an element."""
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Odd:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError("odd")


class OddError(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("odd")


def count() -> Iterator[int]:
    """Yield three numbers."""
    yield from range(3)


def fails_midway() -> Iterator[int]:
    """Yield a number, and raise."""
    yield 1
    raise ValueError("midway")


async def acount() -> AsyncIterator[Any]:
    """Yield three numbers with pauses."""
    for number in range(3):
        await anyio.lowlevel.checkpoint()
        yield number


def list_results() -> dict[str, Any]:
    """Return a function for every kind of result. It returns or raises the result."""
    return {
        "text": lambda: "ünï \x00 \x1b[31m text",
        "empty text": lambda: "",
        "nothing": lambda: None,
        "true": lambda: True,
        "number": lambda: -1.5,
        "big": lambda: {"a": 2**63, "b": 2**64, "c": -(2**70), "d": 2**53 + 1},
        "huge": lambda: 10**5000,
        "nan": lambda: [math.nan, math.inf, -math.inf, 1e308],
        "surrogates": lambda: {"a\ud800": ["b\udfff"]},
        "keys": lambda: {1: "a", None: "b", (1, 2): "c", Colour.RED: "d"},
        "dict": lambda: {"a": {"b": [1, "2", None]}},
        "list": lambda: [1, "2", None, {"a": 1}],
        "tuple": lambda: (1, (2, 3)),
        "set": lambda: {7},
        "enum": lambda: Colour.BLUE,
        "dates": lambda: [datetime.date(2026, 7, 28), datetime.datetime(2026, 7, 28, 1, 2, 3, 4)],
        "uuid": lambda: {"id": uuid.UUID(int=5), "path": pathlib.PurePosixPath("/a"), "d": decimal.Decimal("1.50")},
        "dataclass": lambda: Point(3),
        "model": Model,
        "models": lambda: [Model(), Point(1)],
        "object": lambda: object,
        "odd object": Odd,
        "cycle": cycle,
        "deep": lambda: deep(99),
        "too deep": lambda: deep(101),
        "bytes": lambda: b"\x00\xff",
        "bytes inside": lambda: {"raw": b"\x00\xff"},
        "picture bytes": lambda: PNG,
        "bytes and text": lambda: ["a picture", PNG, {"a": 1}],
        "text block": lambda: Text("said", annotations={"audience": ["user"], "priority": 0.5}, meta={"k": [1]}),
        "image": lambda: Image(PNG, "image/png", meta={"k": 1}),
        "audio": lambda: Audio(b"OggS", "audio/ogg"),
        "embedded text": lambda: EmbeddedResource("file:///a", "text", "text/x-a"),
        "embedded bytes": lambda: EmbeddedResource("file:///a", b"\x00", annotations={"priority": 2}),
        "link": lambda: ResourceLink("file:///a", "a", "A", "an a", "text/plain", 12),
        "blocks": lambda: [Text("one"), "two", 3, Image(PNG, "image/png"), None],
        "bad blocks": lambda: [Image("no bytes", "image/png"), Text("fine")],  # type: ignore[arg-type]
        "result": lambda: ToolResult(success=True, output={"a": 1}, content=[Text("shown")], meta={"m": 1}),
        "result with text": lambda: ToolResult(output="said", content="shown"),  # type: ignore[arg-type]
        "failed result": lambda: ToolResult(success=False, error="went wrong", code="own_code", output=[1]),
        "failed result with a mapping": lambda: ToolResult(is_error=True, error={"message": "m", "more": 1}),
        "odd result": lambda: ToolResult(success=False, error=Odd(), code=b"x"),  # type: ignore[arg-type]
        "result with an odd block": lambda: ToolResult(content=[object(), Odd()]),  # type: ignore[list-item]
        "success": lambda: Result.success({"a": 1}, "fine"),
        "failure": lambda: Result.failure("not fine", ["one", "two"], data=[1]),
        "generator": count,
        "broken generator": fails_midway,
        "async generator": acount,
        "map": lambda: map(str, range(3)),
        "message": lambda: Message("hello", "assistant"),
        "ToolError": lambda: _raise(ToolError("no such place", code="unknown_city", details=["try this", "or\nthat"])),
        "ToolError alone": lambda: _raise(ToolError("no")),
        "Denied": lambda: _raise(errors.Denied("no")),
        "Overloaded": lambda: _raise(errors.Overloaded("full")),
        "MissingCapability": lambda: _raise(errors.MissingCapability({"elicitation": {"url": {}}})),
        "InvalidArguments": lambda: _raise(errors.InvalidArguments(["a: wrong"], tool="x")),
        "InvalidOutput": lambda: _raise(errors.InvalidOutput(["b: wrong"], tool="x", output={"kept": 1})),
        "ToolTimeout": lambda: _raise(errors.ToolTimeout("x", 3)),
        "ResourceNotFound": lambda: _raise(errors.ResourceNotFound("nothing there")),
        "ValueError": lambda: _raise(ValueError("s3cret text")),
        "StopIteration": lambda: _raise(StopIteration("s3cret text")),
        "SystemExit": lambda: _raise(SystemExit(3)),
        "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
        "group": lambda: _raise(ExceptionGroup("several", [ValueError("s3cret text"), KeyError("x")])),
        "Odd error": lambda: _raise(OddError()),
    }


def _raise(error: BaseException) -> None:
    raise error


@tool
def answers(kind: str) -> Any:
    """Return or raise a result in a thread."""
    return list_results()[kind]()


@tool
async def answers_async(kind: str) -> Any:
    """Return or raise a result in the event loop."""
    return list_results()[kind]()


@tool
async def cancels_itself() -> str:
    """Cancel the task it runs in."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "answered"


@tool(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
def promises(kept: bool) -> Any:
    """Has an output schema."""
    return {"a": 1} if kept else {"a": "x"}


@tool(title="A title", tags=["one", "two"])
def presented(city: str, units: Literal["c", "k"] = "c", *, days: int = 1) -> Point:
    """A tool with every field of presentation.

    Args:
        city: Which one.
    """
    return Point(days, f"{city} {units}")


@resource("test://text", mime_type="text/x-own")
def text_resource() -> str:
    """Text."""
    return "the text"


@resource("test://json")
async def json_resource() -> Any:
    """JSON."""
    return {"a": [1]}


@resource("test://bytes")
def bytes_resource() -> bytes:
    """A picture."""
    return PNG


@resource("test://several")
def several_resource() -> Any:
    """Several."""
    return [EmbeddedResource("test://several/1", "one"), b"\x00", Text("three")]


@resource("test://broken")
def broken_resource() -> Any:
    """Cannot be read."""
    return cycle()


@resource("test://failing")
def failing_resource() -> Any:
    """Fails."""
    raise ValueError("s3cret text")


@resource("test://items/{name}", mime_type="text/plain")
def item(name: str) -> str:
    """One of many."""
    return f"item {name}"


@prompt
def greets(name: str, tone: str = "kind") -> Any:
    """Greets.

    Args:
        name: Whom.
    """
    return [Message(f"Greet {name}, be {tone}", "user"), Message(Image(PNG, "image/png"), "assistant"), "go on"]


@prompt
async def fails(name: str) -> str:
    """Fails."""
    raise ToolError(f"no {name}")


@prompt
def wrong_role() -> Any:
    """Return a message with an unknown role."""
    return {"role": "robot", "content": "x"}
