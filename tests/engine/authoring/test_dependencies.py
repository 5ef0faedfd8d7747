"""Parameters filled in by the server: `Annotated[T, Depends(function)]`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from mcp_bridge import CallContext, Depends, ToolError, ToolRegistry, prompt, resource, tool
from mcp_bridge._json_schema.callables import find_context_parameter
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS

STEPS: list[str] = []


@pytest.fixture(autouse=True)
def forget_steps() -> None:
    STEPS.clear()


def make_prefix() -> str:
    STEPS.append("prefix")
    return "number "


async def make_suffix(prefix: Annotated[str, Depends(make_prefix)]) -> str:
    STEPS.append("suffix")
    return f" after {prefix}"


def open_file() -> Iterator[str]:
    STEPS.append("open file")
    try:
        yield "file"
    finally:
        STEPS.append("close file")


async def open_database(file: Annotated[str, Depends(open_file)]) -> AsyncIterator[str]:
    STEPS.append("open database")
    try:
        yield f"database in {file}"
    except ToolError:
        STEPS.append("roll back")
        raise
    finally:
        STEPS.append("close database")


async def swallow() -> AsyncIterator[None]:
    try:
        yield
    except ToolError:
        pass


def read_id(ctx: CallContext) -> str:
    return ctx.request_id


Prefix = Annotated[str, Depends(make_prefix)]


async def test_dependencies_are_resolved_once_per_call_and_not_in_the_schema() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def count(number: int, prefix: Prefix, suffix: Annotated[str, Depends(make_suffix)], times: int = 1) -> str:
        STEPS.append("tool")
        return (prefix + str(number) + suffix) * times

    assert list(count.tool_entry.input_schema["properties"]) == ["number", "times"]
    assert (await registry.ainvoke("count", {"number": 3})).data == "number 3 after number "
    assert STEPS == ["prefix", "suffix", "tool"]


async def test_a_client_cannot_give_the_value_of_a_dependency() -> None:
    registry = ToolRegistry()

    @registry.tool
    def count(number: int, prefix: Prefix, **others: int) -> str:
        return prefix + str(number)

    async with connect(registry) as client:
        assert (await client.call_tool("count", {"number": 1})).content[0].text == "number 1"
        assert (await client.call_tool("count", {"number": 1, "prefix": 5})).is_error


@BOTH_LOOPS
async def test_a_dependency_that_yields_ends_after_the_tool_in_reverse_order() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def query(database: Annotated[str, Depends(open_database)]) -> str:
        STEPS.append("tool")
        return database

    assert (await registry.ainvoke("query", {})).data == "database in file"
    assert STEPS == ["open file", "open database", "tool", "close database", "close file"]


@BOTH_LOOPS
async def test_a_dependency_sees_the_error_of_the_tool() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def query(database: Annotated[str, Depends(open_database)]) -> str:
        raise ToolError("No such table.")

    async with connect(registry) as client:
        result = await client.call_tool("query", {})
    assert result.content[0].text == "No such table."
    assert STEPS == ["open file", "open database", "roll back", "close database", "close file"]


async def test_an_error_that_a_dependency_swallows_is_still_an_error() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def query(nothing: Annotated[None, Depends(swallow)]) -> str:
        raise ToolError("No such table.")

    assert "caught the error of the call" in (await registry.ainvoke("query", {})).message


async def test_synchronous_functions_have_dependencies_too() -> None:
    registry = ToolRegistry()

    @registry.tool
    def read(name: str, file: Annotated[str, Depends(open_file)], call_id: Annotated[str, Depends(read_id)]) -> str:
        return f"{name} of {file} in {bool(call_id)}"

    assert registry.invoke("read", {"name": "page"}).data == "page of file in False"
    async with connect(registry) as client:
        assert (await client.call_tool("read", {"name": "page"})).content[0].text == "page of file in True"
    assert STEPS == ["open file", "close file"] * 2


async def test_resources_prompts_and_tools_with_their_own_schema_have_dependencies() -> None:
    registry = ToolRegistry()

    @resource("numbers://{number}", registry=registry)
    def number_of(number: int, prefix: Prefix) -> str:
        return prefix + str(number)

    @prompt(registry=registry)
    async def ask(topic: str, suffix: Annotated[str, Depends(make_suffix)]) -> str:
        return topic + suffix

    @tool(input_schema={"type": "object"}, registry=registry)
    def own(data: Any, prefix: Prefix, ctx: CallContext) -> str:
        return prefix + data["number"] + str(ctx.answers)

    async with connect(registry) as client:
        assert (await client.read_resource("numbers://4")).contents[0].text == "number 4"
        listing = await client.get_prompt("ask", {"topic": "weather"})
        assert listing.messages[0].content.text == "weather after number "
        assert [argument.name for argument in (await client.list_prompts()).prompts[0].arguments] == ["topic"]
        assert (await client.call_tool("own", {"number": "7"})).content[0].text == "number 7{}"


def test_only_functions_that_need_it_take_the_context() -> None:
    @tool
    def without(prefix: Prefix) -> str:
        return prefix

    @tool
    def inside(call_id: Annotated[str, Depends(read_id)]) -> str:
        return call_id

    assert find_context_parameter(without.tool_entry.handler) is None
    assert find_context_parameter(inside.tool_entry.handler) == "ctx"


def test_the_handler_of_a_tool_without_dependencies_has_no_more_to_do() -> None:
    def work(data: Any) -> Any:
        return data

    assert tool(input_schema={})(work).tool_entry.handler is work


def needs_itself(value: Annotated[int, Depends(lambda: 1)], other: int) -> int:
    return value


def loop_one(value: Annotated[int, Depends(lambda: 0)]) -> int:
    return value


loop_one.__annotations__["value"] = Annotated[int, Depends(loop_one)]


def as_default(prefix: str = Depends(make_prefix)) -> str:  # type: ignore[assignment]
    return prefix


def with_async(suffix: Annotated[str, Depends(make_suffix)]) -> str:
    return suffix


def with_missing(value: Annotated[int, Depends(needs_itself)]) -> int:
    return value


def with_loop(value: Annotated[int, Depends(loop_one)]) -> int:
    return value


def that_yields(prefix: Prefix) -> Iterator[str]:
    yield prefix


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (as_default, "as_default: write parameter 'prefix' as Annotated[..., Depends(...)], without a default"),
        (with_async, "with_async has an async dependency. Write it with async def"),
        (with_missing, "needs_itself is a dependency, and nothing fills in its parameter 'other'"),
        (with_loop, "dependencies need each other: loop_one -> loop_one"),
        (that_yields, "that_yields has dependencies, so it cannot yield. Return a list"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_dependency_that_cannot_be_resolved_is_an_error_of_the_decorator(
    function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(TypeError) as error:
        tool(function)
    assert problem in str(error.value)
