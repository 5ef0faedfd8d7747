"""The types of answers. `make check` runs mypy on this file, so `assert_type` shows the view of a type checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, assert_type

from mcp.types import ElicitRequestParams, ElicitResult
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._contracts.question import Answer, Root, Sampled
from mcp_bridge.testing import connect


class Size(Enum):
    S = "s"
    L = "l"


@dataclass
class Delivery:
    street: str


class Guest(BaseModel):
    name: str


class Table(TypedDict):
    seats: int


VALUES: dict[str, dict[str, Any]] = {
    "confirm": {"confirm": True},
    "int": {"value": 3},
    "date": {"value": "2026-07-28"},
    "literal": {"value": "noon"},
    "enum": {"value": "l"},
    "list": {"value": ["s"]},
    "annotated": {"value": 4},
    "dataclass": {"street": "Elm Street 1"},
    "model": {"name": "Ann"},
    "typed dict": {"seats": 2},
    "schema": {"floor": 1},
}


async def ask_everything(ctx: CallContext) -> None:
    assert_type(await ctx.ask("confirm"), Answer[dict[str, Any]])
    number = await ctx.ask("int", int)
    assert_type(number, Answer[int])
    assert number.data == 3
    day = await ctx.ask("date", date)
    assert_type(day, Answer[date])
    assert day.data == date(2026, 7, 28)
    slot = await ctx.ask("literal", Literal["noon", "evening"])
    assert_type(slot.data, Literal["noon", "evening"])
    assert slot.data == "noon"
    size = await ctx.ask("enum", Size)
    assert_type(size, Answer[Size])
    assert size.data is Size.L
    sizes = await ctx.ask("list", list[Size])
    assert_type(sizes, Answer[list[Size]])
    assert sizes.data == [Size.S]
    bounded = await ctx.ask("annotated", Annotated[int, Field(ge=1)])
    assert_type(bounded, Answer[int])
    assert bounded.data == 4
    delivery = await ctx.ask("dataclass", Delivery)
    assert_type(delivery, Answer[Delivery])
    assert delivery.data == Delivery("Elm Street 1")
    guest = await ctx.ask("model", Guest)
    assert_type(guest, Answer[Guest])
    assert guest.data == Guest(name="Ann")
    table = await ctx.ask("typed dict", Table)
    assert_type(table, Answer[Table])
    assert table.data == {"seats": 2}
    floor = await ctx.ask("schema", {"type": "object", "properties": {"floor": {"type": "integer"}}})
    assert_type(floor, Answer[dict[str, Any]])
    assert floor.data == {"floor": 1}


async def ask_with_fallback(ctx: CallContext) -> None:
    assert_type(await ctx.ask("page", url="https://example.com", fallback=None), Answer[None] | None)
    assert_type(await ctx.ask("int", int, fallback=7), Answer[int] | int)
    assert_type(await ctx.sample("Hi", fallback="none"), Sampled | str)
    assert_type(await ctx.roots(fallback=None), Sequence[Root] | None)


async def test_the_data_of_an_answer_has_the_type_of_the_question() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def ask(ctx: CallContext) -> str:
        await ask_everything(ctx)
        return "asked"

    async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content=VALUES[params.message])

    async with connect(registry, mode="legacy", elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {})
        assert not result.is_error, result.content


async def test_the_result_of_ask_includes_the_type_of_the_fallback() -> None:
    await ask_with_fallback(CallContext())
