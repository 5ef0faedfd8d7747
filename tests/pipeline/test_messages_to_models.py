"""Errors about arguments and outputs, as models read them: in JSON's words, and by the paths that the model knows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcp_bridge import CallContext, ToolEntry, ToolRegistry
from mcp_bridge.contracts.tool import ToolCall
from mcp_bridge.schema.validator import validate
from mcp_bridge.testing import connect

NUMBER = {"type": "number"}
LIST = {"type": "array", "items": {"type": "integer"}, "maxItems": 2}


def register(input_schema: dict[str, Any], output_schema: dict[str, Any], output: Any = None) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(ToolEntry("a", "A.", lambda data: output, input_schema, output_schema))
    return registry


async def get_error(registry: ToolRegistry, arguments: Any) -> str:
    """What a client of this registry is told."""
    async with connect(registry) as client:
        result = await client.call_tool("a", arguments)
    assert result.is_error
    return result.content[0].text


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "null"), ("1", "string"), (True, "boolean"), (1.5, "number"), ({}, "object"), ([], "array")],
)
async def test_models_read_the_names_of_json(value: Any, name: str) -> None:
    registry = register({"type": "object", "properties": {"x": {"type": "integer"}}}, {})
    assert f"- $.x: expected type integer, got {name}\n" in await get_error(registry, {"x": value}) + "\n"


async def test_outputs_are_described_in_the_names_of_json() -> None:
    told = await get_error(register({}, {"type": "string"}, [1]), {})
    assert told.startswith("Output validation failed for tool 'a'")
    assert "- $: expected type string, got array" in told


@pytest.mark.parametrize("value", [math.nan, math.inf])
async def test_a_number_that_json_does_not_have_is_explained(value: float) -> None:
    told = await get_error(register({}, {"type": "object", "properties": {"x": NUMBER}}, {"x": value}), {})
    assert "- $.x: expected type number, got null (NaN and infinities become null)" in told


@pytest.mark.parametrize(("value", "name"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_a_number_that_json_does_not_have_is_named(value: float, name: str) -> None:
    assert validate({"x": [value]}, {"properties": {"x": {"items": NUMBER}}}).errors == [
        f"$.x[0]: expected type number, got {name}"
    ]


def test_a_number_with_any_number_of_digits_is_a_number() -> None:
    assert validate([10**400, "a"], {"items": NUMBER}).errors == ["$[1]: expected type number, got str"]


async def test_the_tool_use_api_keeps_the_names_of_python_types() -> None:
    result = register({"type": "object", "properties": {"x": NUMBER}}, {}).invoke("a", {"x": None})
    assert result.errors == ["$.x: expected type number, got NoneType"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["b"], "- $.input[0]: expected type integer, got string"),
        (1, "- $.input: expected type array, got integer"),
        ([1, 2, 3], "- $.input: array length 3 > maxItems 2"),
    ],
)
async def test_paths_begin_with_the_argument_that_wraps_the_input(given: Any, told: str) -> None:
    assert told in await get_error(register(LIST, {}), {"input": given})


async def test_an_input_that_is_not_wrapped_is_the_root() -> None:
    call = ToolCall(id="1", name="a", arguments=["b"])
    result = await register(LIST, {}).dispatch(call, CallContext())
    assert "- $[0]: expected type integer, got string" in result.error_text
