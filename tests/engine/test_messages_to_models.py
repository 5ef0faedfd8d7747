"""Errors about arguments and outputs, as models read them: in JSON's words, and by the paths of the schema."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._json_schema.validator import validate
from mcp_bridge.testing import connect

NUMBER = {"type": "number"}
LIST = {"type": "array", "items": {"type": "integer"}, "maxItems": 2}


def register(input_schema: dict[str, Any], output_schema: dict[str, Any], output: Any = None) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(ToolEntry("a", "A.", lambda data: output, input_schema, output_schema))
    return registry


async def get_error(registry: ToolRegistry, arguments: Any) -> str:
    """Call the tool and return the text of its error."""
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
    text = await get_error(register({}, {"type": "string"}, [1]), {})
    assert text.startswith("Output validation failed for tool 'a'")
    assert "- $: expected type string, got array" in text


@pytest.mark.parametrize("value", [math.nan, math.inf])
async def test_a_number_that_json_does_not_have_is_explained(value: float) -> None:
    text = await get_error(register({}, {"type": "object", "properties": {"x": NUMBER}}, {"x": value}), {})
    assert "- $.x: expected type number, got null (NaN and infinities become null)" in text


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
    ("value", "text"),
    [
        (["b"], "- $.input[0]: expected type integer, got string"),
        (1, "- $.input: expected type array, got integer"),
        ([1, 2, 3], "- $.input: array length 3 > maxItems 2"),
    ],
)
async def test_paths_begin_with_the_argument_that_wraps_the_input(value: Any, text: str) -> None:
    assert text in await get_error(register(LIST, {}), {"input": value})


async def test_an_input_that_is_not_wrapped_is_the_root() -> None:
    call = ToolCall(id="1", name="a", arguments=["b"])
    result = await register(LIST, {}).dispatch(call, RunningCall())
    assert "- $[0]: expected type integer, got string" in result.error_text


def make_optional(*alternatives: dict[str, Any], keyword: str = "anyOf") -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {keyword: [*alternatives, {"type": "null"}]}}}


POINT = {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}
CIRCLE = {"properties": {"kind": {"const": "circle"}, "radius": {"minimum": 1}}, "required": ["kind", "radius"]}
SQUARE = {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]}


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (make_optional({"type": "integer"}), "ten", "- $.x: expected type integer or null, got string"),
        (make_optional({"type": "integer"}, keyword="oneOf"), 1.5, "- $.x: expected type integer or null, got number"),
        (
            make_optional({"type": ["integer", "string"]}),
            [],
            "- $.x: expected type integer or string or null, got array",
        ),
        (make_optional({"type": "integer", "minimum": 2}), 1, "- $.x: value 1 < minimum 2"),
        (
            make_optional({"enum": ["fast", "full"], "type": "string"}),
            "no",
            '- $.x: value "no" not in enum ["fast", "full"]',
        ),
        (
            make_optional({"enum": ["fast", "full"], "type": "string"}),
            5,
            "- $.x: expected type string or null, got integer",
        ),
        (make_optional(POINT), {"row": "1"}, "- $.x.row: expected type integer, got string"),
        (make_optional(POINT), {}, "- $.x.row: required field missing"),
        (make_optional(POINT), 3, "- $.x: expected type object or null, got integer"),
        (
            make_optional({"type": "array", "items": POINT}),
            [{"row": None}],
            "- $.x[0].row: expected type integer, got null",
        ),
        (
            make_optional(CIRCLE, SQUARE),
            {"kind": "circle", "radius": 0},
            "- $.x.radius: value 0 < minimum 1",
        ),
        (make_optional(CIRCLE, SQUARE), {"kind": "square"}, "- $.x.side: required field missing"),
    ],
)
async def test_a_value_that_fits_no_alternative_is_explained_by_its_type(
    schema: dict[str, Any], value: Any, problem: str
) -> None:
    text = await get_error(register(schema, {}), {"x": value})
    assert [problem] == text.splitlines()[1:]


async def test_the_closest_alternative_is_explained_if_several_have_the_type() -> None:
    alternative = {"type": "object", "required": ["a", "b", "c"]}
    text = await get_error(register(make_optional(alternative, POINT), {}), {"x": {}})
    assert text.splitlines()[1:] == [
        "- $.x: fits none of the 3 alternatives. The problems with the closest one:",
        "- $.x.row: required field missing",
    ]


async def test_values_are_written_as_json() -> None:
    text = await get_error(register({"properties": {"x": {"enum": ["red", None, True, "é"]}}}, {}), {"x": {"a": None}})
    assert '- $.x: value {"a": null} not in enum ["red", null, true, "é"]' in text


async def test_the_tool_use_api_keeps_the_values_of_python() -> None:
    result = register({"properties": {"x": {"enum": ["red", None, True]}}}, {}).invoke("a", {"x": False})
    assert result.errors == ["$.x: value False not in enum ['red', None, True]"]
    result = register({"type": ["string", "null"]}, {}).invoke("a", 3)
    assert result.errors == ["$: expected type ['string', 'null'], got int"]


CLOSED = {"type": "object", "properties": {"amount": {}, "currency": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        (CLOSED, {"amonut": 3}, "- $.amonut: additional property not allowed, did you mean 'amount'?"),
        (CLOSED, {"zzz": 3}, "- $.zzz: additional property not allowed"),
        (CLOSED, {"amonut": 3, "amount": 3}, "- $.amonut: additional property not allowed"),
        (
            make_optional(CLOSED),
            {"x": {"curency": 1}},
            "- $.x.curency: additional property not allowed, did you mean 'currency'?",
        ),
        (
            {"$ref": "#/$defs/Payment", "$defs": {"Payment": CLOSED}},
            {"amonut": 3},
            "- $.amonut: additional property not allowed, did you mean 'amount'?",
        ),
    ],
)
async def test_a_misspelt_argument_is_corrected(schema: dict[str, Any], arguments: Any, problem: str) -> None:
    text = await get_error(register(schema, {}), arguments)
    assert [problem] == text.splitlines()[1:]


async def test_the_tool_use_api_does_not_correct_names() -> None:
    assert register(CLOSED, {}).invoke("a", {"amonut": 3}).errors == ["$.amonut: additional property not allowed"]


async def test_only_the_first_misspelt_arguments_are_corrected() -> None:
    arguments = {f"amount{number}": 1 for number in range(900)}
    text = await get_error(register(CLOSED, {}), arguments)
    assert len(text.splitlines()) == 901
    assert text.count("did you mean 'amount'?") == 10
