"""A registry as the ToolProvider of a Xaibo agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xaibo.core.models.llm import LLMOptions
from xaibo.core.models.tools import Tool, ToolResult

from mcp_bridge import Image, Text, ToolEntry, ToolRegistry
from mcp_bridge.xaibo import RegistryToolProvider

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city."},
        "days": {"type": "integer", "default": 3, "maximum": 7},
        "units": {"type": "string", "enum": ["c", "f"]},
        "level": {"enum": [1, 2]},
        "note": {"anyOf": [{"type": "null"}, {"type": "number"}]},
        "place": {"$ref": "#/$defs/place"},
        "odd": True,
    },
    "required": ["city"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


def make_provider(handler: Any = str, name: str = "find", schema: dict[str, Any] = SCHEMA) -> RegistryToolProvider:
    registry = ToolRegistry()
    registry.register(ToolEntry(name, "Finds.", handler, schema))
    return RegistryToolProvider(registry)


async def test_parameters_are_those_of_the_schema() -> None:
    (tool,) = await make_provider().list_tools()
    result = {name: (item.type, item.required, item.default, item.enum) for name, item in tool.parameters.items()}
    assert result == {
        "city": ("string", True, None, None),
        "days": ("integer", False, 3, None),
        "units": ("string", False, None, ["c", "f"]),
        "level": ("string", False, None, None),
        "note": ("number", False, None, None),
        "place": ("object", False, None, None),
        "odd": ("string", False, None, None),
    }
    assert tool.parameters["city"].description == "The city."
    assert tool.parameters["units"].description is None


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("days", {"type": "integer", "maximum": 7}),
        ("level", {"enum": [1, 2]}),
        ("place", {"type": "object", "properties": {"x": {"type": "number"}}}),
    ],
)
async def test_parts_of_a_schema_without_a_field_are_in_the_description(name: str, lost: dict[str, Any]) -> None:
    (tool,) = await make_provider().list_tools()
    assert json.loads(tool.parameters[name].description.removeprefix("JSON Schema: ")) == lost


async def test_models_are_those_of_xaibo_if_it_is_imported() -> None:
    provider = make_provider()
    assert isinstance((await provider.list_tools())[0], Tool)
    assert LLMOptions(functions=await provider.list_tools()).functions[0].name == "find"
    assert isinstance(await provider.execute_tool("find", {"city": "Oslo"}), ToolResult)


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ("so it is", "so it is"),
        ({"a": 1}, {"a": 1}),
        (None, None),
        ([Text("see"), Image(b"x", "image/png")], "see\n[image image/png]"),
    ],
)
async def test_results_of_tools_become_results_of_the_provider(output: Any, result: Any) -> None:
    returned = await make_provider(lambda _: output).execute_tool("find", {"city": "Oslo"})
    assert (returned.success, returned.result, returned.error) == (True, result, None)


async def test_errors_are_results() -> None:
    provider = make_provider()
    wrong = await provider.execute_tool("find", {"city": 1})
    assert (wrong.success, "- $.city: expected type string, got integer" in wrong.error) == (False, True)
    failure = await provider.execute_tool("lose", {})
    assert (failure.success, failure.error) == (False, "Unknown tool: lose.")


async def test_an_input_that_is_not_an_object_and_an_unusual_name_reach_the_tool() -> None:
    provider = make_provider(lambda data: data, "a b", {"type": "array", "items": {"type": "integer"}})
    (tool,) = await provider.list_tools()
    assert set(tool.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert (await provider.execute_tool(tool.name, {"input": [1]})).result == [1]
    assert "- $.input[0]: expected" in (await provider.execute_tool(tool.name, {"input": ["b"]})).error
