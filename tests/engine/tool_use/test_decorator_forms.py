"""The form of a decorated function: that of the tool_use API, or keywords from its signature."""

from collections.abc import Callable
from typing import Any, Optional

import pytest
from typing_extensions import TypedDict

import mcp_bridge
from mcp_bridge import CallContext, ToolEntry, tool_use
from mcp_bridge.testing import connect
from tests.kits.wire.speaking import build_registry, call, get_text, list_tools


class Record(TypedDict):
    n: int


def untyped(data):  # type: ignore[no-untyped-def]
    return data["n"]


def with_default(data, k=1):  # type: ignore[no-untyped-def]
    return data["n"] * k


def of_list(data: list) -> Any:  # type: ignore[type-arg]
    return data["n"]  # type: ignore[call-overload]


def of_text(data: str) -> Any:
    return data["n"]  # type: ignore[index]


def of_typed_dict(data: Record) -> int:
    return data["n"]


def of_dict_or_none(data: dict[str, int] | None) -> int:
    return (data or {"n": 0})["n"]


def of_optional(data: Optional[dict[str, int]] = None) -> int:  # noqa: UP045
    return (data or {"n": 0})["n"]


def of_dict(record: dict[str, Any]) -> Any:
    return record["n"]


def of_number(data: int) -> int:
    return data


def with_many_types(data: dict[str, Any], *rest: int, flag: bool = False, **others: Any) -> Any:
    return data["n"]


FORMS = [
    untyped, with_default, of_list, of_text, of_typed_dict, of_dict_or_none, of_optional, of_dict, with_many_types,
]  # fmt: skip


@pytest.mark.parametrize("function", FORMS, ids=lambda function: function.__name__)
async def test_the_decorator_of_the_tool_use_api_passes_the_input_data_whatever_the_signature(
    function: Callable[..., Any],
) -> None:
    registry = tool_use.ToolRegistry()
    decorated: Any = tool_use.tool(name="it", registry=registry)(function)
    assert decorated.tool_entry.handler is function
    assert decorated.tool_entry.input_schema == {}
    assert decorated.tool_entry.output_schema == {}
    assert registry.invoke("it", {"n": 5}).data == 5
    async with connect(registry) as client:
        assert get_text(await call(client, "it", n=5)) == "5"


def test_the_decorator_of_the_tool_use_api_passes_any_data() -> None:
    registry = tool_use.ToolRegistry()
    tool_use.tool("number", registry=registry)(of_number)
    tool_use.tool("builtin", registry=registry)(len)
    assert registry.invoke("number", 5).data == 5
    assert registry.invoke("builtin", [1, 2]).data == 2


async def test_the_decorator_of_the_tool_use_api_still_passes_the_call_context() -> None:
    @tool_use.tool("it")
    async def function(data: dict[str, Any], ctx: CallContext) -> str:
        return f"{data['n']} {ctx.protocol_version}"

    async with connect(build_registry(function.tool_entry)) as client:
        assert get_text(await call(client, "it", n=5)) == f"5 {client.protocol_version}"


def test_the_decorator_of_the_tool_use_api_needs_a_name() -> None:
    with pytest.raises(TypeError, match=r"@tool\(name=.*mcp_bridge\.tool"):
        tool_use.tool(untyped)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name"):
        tool_use.tool()  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", "it"])
@pytest.mark.parametrize("function", [*FORMS, of_number], ids=lambda function: function.__name__)
def test_a_name_changes_nothing_about_what_is_read_from_the_signature(function: Callable[..., Any], name: str) -> None:
    bare: Any = mcp_bridge.tool(function)
    names: Any = mcp_bridge.tool(name)(function)
    assert names.tool_entry.input_schema == bare.tool_entry.input_schema
    assert names.tool_entry.output_schema == bare.tool_entry.output_schema
    parameters = names.tool_entry.input_schema["properties"]
    assert "data" in parameters or "record" in parameters


async def test_a_named_function_of_one_dict_publishes_its_parameter() -> None:
    @mcp_bridge.tool(name="it")
    def function(record: dict[str, Any]) -> Any:
        return record["n"]

    async with connect(build_registry(function.tool_entry)) as client:
        (publication,) = await list_tools(client)
        assert publication["inputSchema"]["required"] == ["record"]
        assert publication["inputSchema"]["properties"]["record"]["type"] == "object"
        assert get_text(await call(client, "it", record={"n": 5})) == "5"


@pytest.mark.parametrize("function", FORMS, ids=lambda function: function.__name__)
def test_with_an_input_schema_every_function_receives_the_input_data(function: Callable[..., Any]) -> None:
    for decorate in (mcp_bridge.tool, tool_use.tool):
        decorated: Any = decorate("it", input_schema={"type": "object"})(function)
        assert decorated.tool_entry.handler is function
        assert build_registry(decorated.tool_entry).invoke("it", {"n": 5}).data == 5


def test_a_function_that_is_defined_elsewhere_becomes_a_tool_with_a_name() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    registry = mcp_bridge.ToolRegistry()
    plus = mcp_bridge.tool(add, name="plus", description="Adds.", tags={"maths", "all"}, read_only=True)
    assert plus(1, 2) == 3
    entry: ToolEntry = plus.tool_entry  # type: ignore[attr-defined]
    assert (entry.name, entry.description, entry.tags) == ("plus", "Adds.", ["all", "maths"])
    assert entry.annotations == {"readOnlyHint": True}
    registry.tool(add, name="sum")
    mcp_bridge.tool(add, name="total", registry=registry)
    assert registry.list_names() == ["sum", "total"]
    assert registry.invoke("sum", {"a": 1, "b": 2}).data == 3


def test_a_tool_has_one_name() -> None:
    with pytest.raises(TypeError, match="a tool has one name, and was given two, 'a' and 'b'"):
        mcp_bridge.tool("a", name="b")


def test_tags_may_be_a_set() -> None:
    @tool_use.tool(name="t", tags={"b", "a"})
    def handle(data: Any) -> Any:
        return data

    assert handle.tool_entry.tags == ["a", "b"]  # type: ignore[attr-defined]
