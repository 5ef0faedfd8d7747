"""@tool: a function becomes a tool, and remains the same function."""

import inspect

import anyio.lowlevel
import pytest

from mcp_bridge.tool_use import ToolEntry, ToolRegistry, tool

NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def test_the_decorated_function_carries_its_entry():
    @tool(
        name="double", description="Doubles n.", input_schema=NUMBER, output_schema={"type": "integer"}, tags=["math"]
    )
    def double(data):
        return data["n"] * 2

    entry = double.tool_entry
    assert isinstance(entry, ToolEntry)
    assert (entry.name, entry.description, entry.tags) == ("double", "Doubles n.", ["math"])
    assert (entry.input_schema, entry.output_schema) == (NUMBER, {"type": "integer"})


def test_every_argument_may_be_positional():
    registry = ToolRegistry()

    @tool("double", "Doubles n.", NUMBER, {"type": "integer"}, ["math"], registry)
    def double(data):
        return data["n"] * 2

    assert registry.get("double") is double.tool_entry
    assert double.tool_entry.to_dict() == {
        "name": "double",
        "description": "Doubles n.",
        "input_schema": NUMBER,
        "output_schema": {"type": "integer"},
        "tags": ["math"],
    }


def test_schemas_and_tags_are_empty_by_default():
    @tool(name="echo")
    def echo(data):
        return data

    assert echo.tool_entry.input_schema == {}
    assert echo.tool_entry.output_schema == {}
    assert echo.tool_entry.tags == []


def test_two_tools_do_not_share_schemas_or_tags():
    @tool(name="a")
    def first(data):
        return data

    @tool(name="b")
    def second(data):
        return data

    first.tool_entry.tags.append("x")
    first.tool_entry.output_schema["type"] = "string"
    assert second.tool_entry.tags == []
    assert second.tool_entry.output_schema == {}


def test_the_handler_is_the_undecorated_function():
    def double(data):
        return data["n"] * 2

    decorated = tool(name="double", input_schema=NUMBER)(double)
    assert decorated.tool_entry.handler is double


def test_the_decorated_function_is_callable_as_written():
    @tool(name="area", input_schema={"type": "object"})
    def area(data, *, scale=1):
        return data["w"] * data["h"] * scale

    assert area({"w": 2, "h": 3}) == 6
    assert area({"w": 2, "h": 3}, scale=10) == 60
    assert area(data={"w": 1, "h": 1}) == 1


def test_a_direct_call_of_the_function_is_not_validated_and_raises():
    @tool(name="double", input_schema=NUMBER, output_schema={"type": "integer"})
    def double(data):
        return data["n"] * 2

    assert double({"n": "ab"}) == "abab"
    with pytest.raises(KeyError):
        double({})


def test_the_decorated_function_keeps_its_metadata():
    def double(data: dict) -> int:
        """Doubles n."""
        return data["n"] * 2

    double.mark = "kept"
    decorated = tool(name="other", input_schema=NUMBER)(double)
    assert decorated.__name__ == "double"
    assert decorated.__qualname__ == double.__qualname__
    assert decorated.__doc__ == "Doubles n."
    assert decorated.__module__ == __name__
    assert decorated.__wrapped__ is double
    assert decorated.mark == "kept"
    assert inspect.signature(decorated) == inspect.signature(double)


def test_a_missing_description_is_the_unchanged_docstring():
    @tool(name="double", input_schema=NUMBER)
    def double(data):
        """Doubles n.

        Twice as much.
        """
        return data["n"] * 2

    assert double.tool_entry.description == double.__doc__


def test_a_description_wins_over_the_docstring():
    @tool(name="double", description="Given.", input_schema=NUMBER)
    def double(data):
        """Written."""
        return data["n"] * 2

    assert double.tool_entry.description == "Given."
    assert double.__doc__ == "Written."


def test_without_description_and_docstring_the_description_is_empty():
    @tool(name="double", input_schema=NUMBER)
    def double(data):
        return data["n"] * 2

    assert double.tool_entry.description == ""


def test_a_registry_gets_the_tool_at_once():
    registry = ToolRegistry()

    @tool(name="double", input_schema=NUMBER, registry=registry)
    def double(data):
        return data["n"] * 2

    assert registry.get("double") is double.tool_entry
    assert registry.invoke("double", {"n": 4}).data == 8
    assert registry.invoke("double", {"n": "x"}).errors == ["$.n: expected type integer, got str"]


def test_an_empty_registry_is_a_registry():
    registry = ToolRegistry()
    assert len(registry) == 0
    tool(name="a", registry=registry)(lambda data: data)
    assert registry.list_names() == ["a"]


def test_a_duplicate_name_is_an_error_at_decoration():
    registry = ToolRegistry()
    tool(name="a", registry=registry)(lambda data: "first")
    with pytest.raises(
        ValueError, match=r"^Tool 'a' is already registered\. Unregister it first or use a different name\.$"
    ):
        tool(name="a", registry=registry)(lambda data: "second")
    assert registry.invoke("a").data == "first"


def test_a_tool_without_a_registry_can_be_registered_later():
    @tool(name="double", input_schema=NUMBER)
    def double(data):
        return data["n"] * 2

    first, second = ToolRegistry(), ToolRegistry()
    first.register(double.tool_entry)
    second.register(double.tool_entry)
    assert first.invoke("double", {"n": 4}).data == second.invoke("double", {"n": 4}).data == 8


def test_a_handler_of_one_dict_gets_the_dict_whatever_its_parameter_is_called():
    registry = ToolRegistry()

    @tool(name="echo", input_schema={"type": "object"}, registry=registry)
    def echo(city):
        return city

    assert registry.invoke("echo", {"city": "Bonn", "n": 1}).data == {"city": "Bonn", "n": 1}


def test_a_handler_without_schemas_gets_any_data():
    registry = ToolRegistry()

    @tool(name="echo", registry=registry)
    def echo(data):
        return data

    for data in ({"a": 1}, {}, [1], "x", None):
        assert registry.invoke("echo", data).data == data


def test_a_decorated_async_function_is_a_coroutine_function():
    @tool(name="double", input_schema=NUMBER)
    async def double(data):
        """Doubles n."""
        return data["n"] * 2

    assert inspect.iscoroutinefunction(double)
    assert inspect.iscoroutinefunction(double.tool_entry.handler)
    assert (double.__name__, double.__doc__) == ("double", "Doubles n.")


async def test_an_async_function_is_awaited_as_written_and_through_the_registry():
    registry = ToolRegistry()

    @tool(name="double", input_schema=NUMBER, registry=registry)
    async def double(data):
        await anyio.lowlevel.checkpoint()
        return data["n"] * 2

    assert await double({"n": 4}) == 8
    assert registry.invoke("double", {"n": 4}).data == 8
    assert (await registry.ainvoke("double", {"n": 4})).data == 8


def test_one_function_can_be_several_tools():
    def double(data):
        return data["n"] * 2

    first, second = tool(name="a", input_schema=NUMBER)(double), tool(name="b", input_schema=NUMBER)(double)
    assert (first.tool_entry.name, second.tool_entry.name) == ("a", "b")
    assert first.tool_entry.handler is second.tool_entry.handler is double
