"""Tools that use every feature of the context. Tests compare them in the process of the bridge and in a worker."""

from __future__ import annotations

import datetime
import enum
import logging
import math
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from mcp_bridge import CallContext, Form, Message, resource, tool
from mcp_bridge.questions import Link, NeedsInput, Roots, Sampling

NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Seat(BaseModel):
    """A seat."""

    row: int = Field(ge=1)

    @field_validator("row")
    @classmethod
    def _not_thirteen(cls, row: int) -> int:
        if row == 13:
            raise ValueError("there is no row 13")
        return row


class Pair(TypedDict):
    """Two."""

    left: float
    right: bool


def list_types() -> dict[str, Any]:
    """Return the types for forms."""
    return {
        "nothing": None,
        "dataclass": Point2,
        "model": Seat,
        "TypedDict": Pair,
        "Enum": Colour,
        "Literal": Literal["a", "b"],
        "several": list[Colour],
        "str": str,
        "int": int,
        "float": float,
        "bool": bool,
        "date": datetime.date,
        "schema": NAME,
        "refused": dict[str, Any],
        "broken schema": {"type": "object", "properties": {"a": {"type": "object"}}},
    }


@dataclass
class Point2:
    """Where.

    Attributes:
        street: Street and number.
    """

    street: str
    floor: int | None = None


@tool
async def asks(kind: str, ctx: CallContext) -> list[str]:
    """Ask a form of this type."""
    answer = await ctx.ask("Please.", list_types()[kind], key="it")
    return [answer.action, repr(dict(answer.content)), repr(answer.data), str(bool(answer))]


@tool
def asks_from_a_thread(ctx: CallContext) -> str:
    """Ask, from a synchronous function."""
    return repr(anyio.from_thread.run(lambda: ctx.ask("Please.", str)).data)


@tool
async def asks_with_fallback(ctx: CallContext) -> str:
    """Ask, with a fallback for clients that cannot be asked."""
    return repr(await ctx.ask("Please.", str, fallback="anonymous"))


@tool
async def asks_to_open(ctx: CallContext, url: str = "https://example.com/in") -> str:
    """Ask to open a page."""
    answer = await ctx.ask("Sign in.", url=url, key="page")
    return f"{answer.action} {answer.data!r}"


@tool
async def asks_at_once(ctx: CallContext) -> list[str]:
    """Ask three questions concurrently."""
    text: dict[str, str] = {}

    async def one(key: str) -> None:
        text[key] = repr((await ctx.ask(f"Please, {key}.", str, key=key)).data)

    async with anyio.create_task_group() as tasks:
        for key in ("a", "b", "c"):
            tasks.start_soon(one, key)
    return [text[key] for key in sorted(text)]


@tool
async def asks_for_all(ctx: CallContext) -> list[str]:
    """Put several questions."""
    put = await ctx.put({"name": Form("Who?", NAME), "say": Sampling("Hi"), "where": Roots()})
    return [repr(put["name"].data), put["say"].text, *(root.uri for root in put["where"])]


@tool
async def samples(ctx: CallContext) -> list[str]:
    """Have the client's model say something."""
    text = await ctx.sample(["one", Message("two", "assistant")], max_tokens=7, system_prompt="s", temperature=0.5)
    return [text.text, text.role, text.model, str(text.stop_reason), type(text.content[0]).__name__]


@tool
async def lists_roots(ctx: CallContext) -> list[str]:
    """Ask for the roots."""
    return [f"{root.uri} {root.name}" for root in await ctx.roots()]


@tool
def needs(ctx: CallContext) -> Any:
    """Return questions, and be called again with the answers."""
    if "name" not in ctx.answers:
        return NeedsInput({"name": Form("Who?", Point2), "page": Link("Go", "https://example.com/")}, {"step": [1]})
    name = ctx.answers["name"]
    return [name.action, repr(name.data), repr(dict(name.content)), ctx.answers["page"].action, repr(ctx.state)]


@tool
async def notices(ctx: CallContext) -> str:
    """Progress and log messages, in order."""
    await ctx.report_progress(1)
    await ctx.report_progress(2.5, 10, "ünï")
    levels: tuple[Any, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    for level in levels:
        await ctx.log(level, {"n": level, "odd": math.nan}, "own")
    await ctx.report_progress(9, 10)
    return "said"


@tool
async def bad_level(ctx: CallContext) -> str:
    """Log with an invalid level."""
    try:
        await ctx.log("loud", "x")  # type: ignore[arg-type]
    except ValueError as error:
        return str(error)
    return "no error"


@tool
async def knows(ctx: CallContext) -> dict[str, Any]:
    """Return the information of the context."""
    deadline = ctx.deadline
    return {
        "version": ctx.protocol_version,
        "principal": ctx.principal,
        "id": bool(ctx.request_id),
        "meta": {key: ctx.meta[key] for key in ctx.meta if not str(key).startswith("io.modelcontextprotocol/")},
        "capabilities": sorted(ctx.capabilities),
        "left": deadline is not None and 0 < deadline - anyio.current_time() <= 60,
        "answers": dict(ctx.answers),
        "state": ctx.state,
    }


@tool
async def lists_tools(ctx: CallContext) -> list[Any]:
    """Return the tools of the context."""
    return [[item.name, item.description, item.input_schema, item.tags, item.title, item.owner] for item in ctx.tools()]


@tool
async def invokes(ctx: CallContext, name: str, arguments: dict[str, Any] | None = None) -> list[Any]:
    """Call another tool."""
    try:
        result = await ctx.invoke(name, arguments)
    except Exception as error:
        return [type(error).__name__, str(getattr(error, "code", "")), str(error)]
    return [result.success, result.output, result.error_text, result.code, repr(result.content)]


@tool
async def closes_stream(ctx: CallContext) -> str:
    """Let the client come back later."""
    await ctx.close_stream()
    return "closed"


@tool
async def updates(ctx: CallContext) -> str:
    """Report that a resource has changed."""
    ctx.resource_updated("test://text")
    return "updated"


@tool
async def logs() -> str:
    """Write to the log."""
    logging.getLogger("own.tools").warning("a line\nand\x1b[2J another")
    return "logged"


@resource("test://asking")
async def asking_resource(ctx: CallContext) -> str:
    """Asks first."""
    return f"for {(await ctx.ask('Who?', NAME, key='name')).content['name']}"
