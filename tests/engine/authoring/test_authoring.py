"""@tool: every way to write one, called through the official client."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, Optional

import pydantic
import pytest

from mcp_bridge import CallContext, Image, ToolCall, ToolEntry, ToolRegistry, prompt, resource, tool, tool_use
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge.errors import DuplicateTool
from mcp_bridge.testing import connect
from tests.kits.wire.speaking import ERAS, build_registry, call, get_text, list_tools


def make_entry(function: Any) -> ToolEntry:
    entry = function.tool_entry
    assert isinstance(entry, ToolEntry)
    return entry


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclass
class Weather:
    city: str
    day: date
    degrees: float


class Query(pydantic.BaseModel):
    city: str
    days: int = 1


# The forms


async def test_a_bare_decorator_reads_the_signature() -> None:
    @tool
    def forecast(city: str, day: date, unit: Unit = Unit.C) -> Weather:
        """The weather of one day.

        Args:
            city: In English.
        """
        return Weather(city, day, 20.5 if unit is Unit.C else 68.9)

    entry = make_entry(forecast)
    assert (entry.name, entry.description) == ("forecast", "The weather of one day.")
    assert entry.input_schema["required"] == ["city", "day"]
    assert entry.input_schema["properties"]["city"]["description"] == "In English."
    assert forecast("Bonn", date(2026, 1, 2)).degrees == 20.5
    async with connect(build_registry(entry)) as client:
        result = await call(client, "forecast", city="Bonn", day="2026-01-02", unit="fahrenheit")
    assert result["structuredContent"] == {"city": "Bonn", "day": "2026-01-02", "degrees": 68.9}


@ERAS
async def test_every_form_of_the_decorator_makes_a_tool(mode: str) -> None:
    @tool
    def bare(n: int) -> int:
        return n + 1

    @tool()
    def called(n: int) -> int:
        return n + 1

    @tool("renamed")
    def with_a_name(n: int) -> int:
        return n + 1

    @tool_use.tool("seed")
    def one_dict(data):  # type: ignore[no-untyped-def]
        return data["n"] + 1

    @tool_use.tool("typed_dict")
    def one_typed_dict(data: dict[str, Any]) -> int:
        return int(data["n"]) + 1

    @tool(input_schema={"type": "object", "required": ["n"]})
    def with_a_schema(whatever: Any) -> int:
        return int(whatever["n"]) + 1

    functions = [bare, called, with_a_name, one_dict, one_typed_dict, with_a_schema]
    names = ["bare", "called", "renamed", "seed", "typed_dict", "with_a_schema"]
    async with connect(build_registry(*map(make_entry, functions)), mode=mode) as client:
        assert [tool["name"] for tool in await list_tools(client)] == names
        for name in names:
            assert get_text(await call(client, name, n=41)) == "42", name


@pytest.mark.parametrize("name", ["", "named"])
async def test_a_function_without_parameters_is_a_tool_with_and_without_a_name(name: str) -> None:
    @tool(name)
    def now() -> str:
        return "noon"

    @tool(name + "ctx")
    async def who(ctx: CallContext) -> str:
        return ctx.protocol_version

    @tool(name + "keywords")
    def keywords(*, n: int = 1) -> int:
        return n

    async with connect(build_registry(*map(make_entry, (now, who, keywords)))) as client:
        assert get_text(await call(client, name or "now")) == "noon"
        assert get_text(await call(client, name + "ctx")) == client.protocol_version
        assert get_text(await call(client, name + "keywords", n=3)) == "3"


@pytest.mark.parametrize("builtin", [len, functools.partial(len), functools.partial(max, 2, key=lambda value: 1)])
async def test_a_builtin_with_a_name_gets_the_data(builtin: Any) -> None:
    wrapper: Any = tool_use.tool("size", "Counts.")(builtin)
    async with connect(build_registry(make_entry(wrapper))) as client:
        assert get_text(await call(client, "size", a=1, b=2)) == "2"


def test_what_cannot_carry_an_attribute_is_wrapped() -> None:
    wrapper: Any = tool("biggest", input_schema={"type": "object"})(max)
    assert wrapper is not max
    assert wrapper([1, 3, 2]) == 3
    assert make_entry(wrapper).handler is max


# The context


def first(ctx: CallContext, n: int) -> str:
    return f"{n} {ctx.request_id}"


def optionally(n: int, ctx: Optional[CallContext] = None) -> str:  # noqa: UP045
    return f"{n} {ctx.request_id if ctx else ''}"


def by_keyword(n: int, *, running: CallContext) -> str:
    return f"{n} {running.request_id}"


def as_text(n: int, ctx: "CallContext | None" = None) -> str:  # noqa: UP037
    return f"{n} {ctx.request_id if ctx else ''}"


async def awaited(n: int, ctx: CallContext) -> str:
    return f"{n} {ctx.request_id}"


def seed(data, ctx: CallContext):  # type: ignore[no-untyped-def]
    return f"{data['n']} {ctx.request_id}"


def seed_first(ctx: "CallContext", data):  # type: ignore[no-untyped-def]  # noqa: UP037
    return f"{data['n']} {ctx.request_id}"


async def seed_by_keyword(data: dict[str, Any], *, ctx: CallContext | None = None) -> str:
    return f"{data['n']} {ctx.request_id if ctx else ''}"


@pytest.mark.parametrize(
    ("decorate", "function"),
    [
        *((tool, function) for function in (first, optionally, by_keyword, as_text, awaited)),
        *((tool_use.tool, function) for function in (seed, seed_first, seed_by_keyword)),
    ],
    ids=lambda value: value.__name__,
)
async def test_the_context_is_passed_to_each_function_with_a_parameter_for_it(
    decorate: Callable[..., Any], function: Callable[..., Any]
) -> None:
    wrapper: Any = decorate("t")(functools.wraps(function)(lambda *args, **arguments: function(*args, **arguments)))
    entry = make_entry(wrapper)
    assert "ctx" not in str(entry.input_schema)
    assert "running" not in str(entry.input_schema)
    async with connect(build_registry(entry)) as client:
        number, request = get_text(await call(client, n=1)).split(" ")
    assert number == "1"
    assert request


# What may be decorated


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int) -> int:
        """Adds a number."""
        self.total += n
        return self.total

    async def __call__(self, n: int) -> int:
        return self.add(n)

    @classmethod
    def zero(cls, n: int) -> int:
        return n * 0

    @staticmethod
    def one(n: int) -> int:
        return n**0


async def test_methods_and_objects_become_tools_and_stay_callable() -> None:
    counter = Counter()
    functions: list[Any] = [tool(counter.add), tool("object")(counter), tool("zero")(Counter.zero), tool(Counter.one)]
    assert functions[0](1) == 1
    assert functions[0].__doc__ == "Adds a number."
    async with connect(build_registry(*map(make_entry, functions))) as client:
        answers = [get_text(await call(client, name, n=2)) for name in ("add", "object", "zero", "one")]
    assert answers == ["3", "5", "0", "1"]


def test_an_object_without_a_name_is_called_like_its_class() -> None:
    assert make_entry(tool()(Counter())).name == "Counter"


async def test_an_async_function_is_awaited() -> None:
    @tool
    async def double(n: int) -> int:
        return n * 2

    assert await double(2) == 4
    async with connect(build_registry(make_entry(double))) as client:
        assert get_text(await call(client, "double", n=4)) == "8"


# Options


def test_the_tool_is_registered_and_a_second_one_of_its_name_is_an_error() -> None:
    registry = ToolRegistry()

    @tool("t", registry=registry)
    def one(data: Any) -> int:
        return 1

    assert registry.get("t") is make_entry(one)
    with pytest.raises(DuplicateTool):
        tool("t", registry=registry)(lambda data: 2)


@ERAS
async def test_title_icons_and_meta_are_copied(mode: str) -> None:
    annotations, icons, meta = {"readOnlyHint": True}, [{"src": "https://a/i.png"}], {"a/b": 1}

    @tool(title="A title", tags=["x"], annotations=annotations, icons=icons, meta=meta, description="Mine.")
    def shown(n: int) -> int:
        """Not this."""
        return n

    annotations.clear()
    icons.clear()
    meta.clear()
    async with connect(build_registry(make_entry(shown)), mode=mode) as client:
        [definition] = await list_tools(client)
    assert (definition["title"], definition["description"]) == ("A title", "Mine.")
    assert definition["annotations"] == {"readOnlyHint": True}
    assert definition["icons"] == [{"src": "https://a/i.png"}]
    assert definition["_meta"] == {"a/b": 1, "mcp-bridge/tags": ["x"]}


# Schemas


async def test_the_return_type_is_the_output_schema_and_is_enforced() -> None:
    @tool
    def lying(n: int) -> int:
        return "no number"  # type: ignore[return-value]

    @tool(output_schema={"type": "string"})
    def other(n: int) -> int:
        return "a text"  # type: ignore[return-value]

    async with connect(build_registry(make_entry(lying), make_entry(other))) as client:
        result, fine = await call(client, "lying", n=1), await call(client, "other", n=1)
    assert make_entry(lying).output_schema == {"type": "integer"}
    assert result["_meta"]["mcp-bridge/code"] == "invalid_output"
    assert "expected type integer" in get_text(result)
    assert get_text(fine) == "a text"


async def test_models_and_optional_answers_work() -> None:
    @tool
    def ask(query: Query, limit: int | None = None) -> dict[str, int] | None:
        return {"days": query.days} if limit is None else None

    async with connect(build_registry(make_entry(ask))) as client:
        answers = [await call(client, "ask", query={"city": "Bonn"}, **more) for more in ({}, {"limit": 1})]
        wrong = await call(client, "ask", query={"days": "x"})
    assert [answer["structuredContent"] for answer in answers] == [{"result": {"days": 1}}, {"result": None}]
    assert wrong["_meta"]["mcp-bridge/code"] == "invalid_arguments"
    assert "$.query.city" in get_text(wrong)


async def test_a_tool_that_returns_a_list_of_anything_may_return_content_blocks() -> None:
    @tool
    def draw() -> list:  # type: ignore[type-arg]
        return ["a tree", Image(b"\x00", "image/png")]

    async with connect(build_registry(make_entry(draw))) as client:
        result = await call(client, "draw")
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert not result.get("isError")


async def test_positional_only_parameters_and_stars_are_filled_in() -> None:
    @tool
    def many(a: int, /, *rest: int, **more: int) -> list[int]:
        return [a, *rest, *more.values()]

    async with connect(build_registry(make_entry(many))) as client:
        assert get_text(await call(client, "many", a=1, rest=[2, 3], z=4)) == "[1,2,3,4]"


def test_no_arguments_at_all_are_an_empty_object_for_a_typed_function() -> None:
    @tool
    def default(n: int = 5) -> int:
        return n

    assert build_registry(make_entry(default)).invoke("default", None, validate=False).data == 5


def test_a_function_with_an_unsupported_signature_cannot_be_decorated() -> None:
    with pytest.raises(TypeError, match="'slots' has a type that JSON Schema cannot describe"):

        @tool
        def bad(slots: Counter) -> None: ...


class Counted:
    def __init__(self) -> None:
        self.count = 0

    def add(self, amount: int = 1) -> int:
        """Add to the count."""
        self.count += amount
        return self.count


def test_the_method_of_an_instance_is_a_tool() -> None:
    entry = make_entry(tool(Counted().add))
    assert list(entry.input_schema["properties"]) == ["amount"]
    assert build_registry(entry).invoke("add", {"amount": 2}).data == 2


@pytest.mark.parametrize("decorate", [tool, prompt, resource("counts://all")])
def test_a_method_without_its_instance_cannot_be_decorated(decorate: Any) -> None:
    with pytest.raises(TypeError, match=r"Counted\.add is a method, and clients cannot send 'self'"):
        decorate(Counted.add)


def test_tags_that_are_text_are_an_error() -> None:
    with pytest.raises(TypeError, match="tags must be a list of texts"):
        tool(tags="weather")  # type: ignore[call-overload]


async def test_lists_and_dicts_of_plain_types_are_converted_as_annotated_and_copied() -> None:
    arguments: dict[str, Any] = {"counts": [1.0, 2], "rates": {"a": 1}, "names": ["x"], "maybe": [None, 3.0]}
    bound: list[Any] = []

    @tool
    async def collect(
        counts: list[int], rates: dict[str, float], names: list[str], maybe: list[int | None] | None = None
    ) -> None:
        names.append("mine")
        bound.append((counts, rates, names, maybe))

    result = await build_registry(make_entry(collect)).dispatch(
        ToolCall(id="1", name="collect", arguments=arguments), RunningCall()
    )
    assert result.success, result.error
    assert repr(bound) == "[([1, 2], {'a': 1.0}, ['x', 'mine'], [None, 3])]"
    assert arguments["names"] == ["x"]
