"""JSON Schema as ToolParameters: what they can say is said, what they cannot is reported and kept."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bridge.xaibo import Tool, ToolParameter
from mcp_bridge.xaibo.schemas import parameters_of, schema_of, schema_of_tool, tool_of

ROOM: dict[str, Any] = {
    "type": "object",
    "title": "Room",
    "properties": {
        "guest": {"$ref": "#/$defs/guest"},
        "nights": {"type": "integer", "minimum": 1, "default": 1},
        "view": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "View"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "extra": {"type": "object", "properties": {"bed": {"type": "boolean"}}, "additionalProperties": False},
    },
    "required": ["guest", "nights"],
    "additionalProperties": False,
    "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def parameter_of(part: Any, *, required: bool = False) -> ToolParameter:
    """The parameter of one property."""
    schema = {"type": "object", "properties": {"p": part}, "required": ["p"] if required else []}
    return parameters_of(schema)[0]["p"]


def lost(part: Any) -> list[str]:
    """The keywords of one property that are lost."""
    prefix = "$.properties.p."
    return [line.partition(":")[0].removeprefix(prefix) for line in parameters_of({"properties": {"p": part}})[1]]


def test_what_parameters_can_say_loses_nothing() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where.", "enum": ["Oslo", "Rome"]},
            "days": {"type": "integer", "enum": [1, 2], "default": 2},
            "whatever": {"default": None},
            "list": {"type": "array", "items": {}},
        },
        "required": ["city"],
    }
    parameters, losses = parameters_of(schema)
    assert losses == []
    assert parameters == {
        "city": ToolParameter(type="string", description="Where.", required=True, enum=["Oslo", "Rome"]),
        "days": ToolParameter(type="integer", default=2, enum=["1", "2"], required=False),
        "whatever": ToolParameter(type="any", default=None, required=False),
        "list": ToolParameter(type="array", required=False),
    }
    assert schema_of(parameters) == schema


def test_each_loss_is_a_line_with_its_path() -> None:
    _, losses = parameters_of(ROOM)
    assert losses == [
        "$.title: a ToolParameter cannot say this",
        "$.additionalProperties: a ToolParameter cannot say this",
        "$.$defs: a ToolParameter cannot say this",
        "$.properties.guest.$ref: a ToolParameter cannot say this",
        "$.properties.nights.minimum: a ToolParameter cannot say this",
        "$.required: 'nights' has a default, which makes it optional",
        "$.properties.view.anyOf: a ToolParameter cannot say this",
        "$.properties.view.default: a ToolParameter cannot say this",
        "$.properties.view.title: a ToolParameter cannot say this",
        "$.properties.tags.items: a ToolParameter cannot say this",
        "$.properties.extra.properties: a ToolParameter cannot say this",
        "$.properties.extra.additionalProperties: a ToolParameter cannot say this",
    ]


def test_the_full_schema_is_kept_beside_the_tool() -> None:
    given = deepcopy(ROOM)
    tool = tool_of("book", "Book a room.", given)
    given["properties"].clear()
    assert schema_of_tool(tool) == ROOM
    schema_of_tool(tool)["properties"].clear()
    assert schema_of_tool(tool) == ROOM
    assert {name: each.type for name, each in tool.parameters.items()} == {
        "guest": "object",
        "nights": "integer",
        "view": "string",
        "tags": "array",
        "extra": "object",
    }
    assert schema_of_tool(tool.model_copy()) == ROOM


def test_parameters_that_were_changed_afterwards_count() -> None:
    tool = tool_of("book", "Book a room.", ROOM)
    tool.parameters = {"only": ToolParameter(type="string")}
    assert schema_of_tool(tool) == {"type": "object", "properties": {"only": {"type": "string"}}}


def test_a_tool_that_says_it_all_is_like_one_written_by_hand() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    by_hand = Tool(name="t", description="d", parameters={"a": ToolParameter(type="string")})
    assert tool_of("t", "d", schema) == by_hand


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": ["string", "null"]}, "string"),
        ({"type": ["integer", "string"]}, "any"),
        ({"type": "str"}, "string"),
        ({"type": 7}, "any"),
        ({"oneOf": [{"type": "number"}, {"type": "null"}]}, "number"),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "any"),
        ({"anyOf": [{"type": "number"}, {"minimum": 2}]}, "any"),
        ({"$ref": "#/nowhere"}, "any"),
        ({"const": 1}, "any"),
        (True, "any"),
        (False, "any"),
    ],
)
def test_a_parameter_has_the_one_type_that_there_is(part: Any, kind: str) -> None:
    assert parameter_of(part).type == kind


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": ["string", "null"]}, ["type"]),
        ({"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a", "format": "uri"}, 4),
        ({"type": "string", "description": 7}, ["description"]),
        ({"type": "array", "items": True}, []),
        ({"type": "array"}, []),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, []),
        ({"type": "array", "items": {"enum": [1]}}, ["items"]),
        ({"enum": ["a", "1"]}, []),
        ({"enum": ["a", 1]}, ["enum"]),
        ({"type": "string", "enum": ["a", None]}, ["enum"]),
        ({"type": "integer", "enum": [1, 2.0]}, []),
        ({"type": "integer", "enum": [1.5]}, ["enum"]),
        ({"type": "boolean", "enum": [True]}, []),
        ({"type": "boolean", "enum": [1]}, ["enum"]),
        ({"type": "integer", "enum": [True]}, ["enum"]),
        ({"type": "integer", "enum": ["1"]}, ["enum"]),
        ({"type": "object", "enum": [{}]}, ["enum"]),
        ({"type": "string", "enum": []}, ["enum"]),
        ({"type": "string", "default": None}, ["default"]),
        ({"type": "string", "default": object()}, ["default"]),
        ({"const": 1}, ["const"]),
    ],
)
def test_a_keyword_is_lost_where_the_parameter_would_say_something_else(part: Any, words: Any) -> None:
    found = lost(part)
    assert (len(found) if isinstance(words, int) else found) == words


def test_an_enum_keeps_what_it_can_beside_null() -> None:
    assert parameter_of({"type": ["string", "null"], "enum": ["a", None]}).enum == ["a"]
    assert parameter_of({"enum": ["a", 1]}).enum is None


def test_a_property_that_is_forbidden_is_reported() -> None:
    assert parameters_of({"properties": {"p": False}})[1] == ["$.properties.p: a ToolParameter cannot say this"]
    assert parameters_of({"properties": {"p": True}})[1] == []


def test_a_required_name_without_a_property_is_a_parameter_of_any_type() -> None:
    parameters, losses = parameters_of({"required": ["a"]})
    assert (parameters, losses) == ({"a": ToolParameter(type="any", required=True)}, [])


def test_a_required_default_of_null_is_reported() -> None:
    schema = {"properties": {"p": {"default": None}}, "required": ["p"]}
    assert parameters_of(schema)[1] == ["$.properties.p.default: a ToolParameter cannot say this"]


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        (False, "$: a schema is an object, found bool"),
        ("x", "$: a schema is an object, found str"),
        ({"type": "string"}, "$.type: parameters are the properties of an object"),
        ({"properties": ["a"]}, "$.properties: not an object"),
        ({"required": "abc"}, "$.required: not a list of names"),
        ({"required": [1]}, "$.required: not a list of names"),
    ],
)
def test_a_schema_that_is_none_is_reported_and_has_no_parameters(schema: Any, line: str) -> None:
    assert parameters_of(schema) == ({}, [line])
    assert tool_of("t", "d", schema).parameters == {}


def test_a_schema_without_end_is_read() -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"p": {"type": "object", "default": loop, "enum": [loop]}}
    parameters, losses = parameters_of(loop)
    assert parameters["p"].type == "object"
    assert len(losses) == 2
    assert schema_of_tool(tool_of("t", "d", loop))["properties"]["p"]["type"] == "object"


@pytest.mark.parametrize("depth", [100, 900, 1350])
def test_a_default_of_any_depth_is_kept_in_the_schema(depth: int) -> None:
    deep: Any = 1
    for _ in range(depth):
        deep = [deep]
    tool = tool_of("t", "d", {"type": "object", "properties": {"p": {"default": deep}}, "title": "T"})
    kept = schema_of_tool(tool)["properties"]["p"].get("default")
    levels = 0
    while isinstance(kept, list):
        levels, kept = levels + 1, kept[0]
    assert levels == depth


def test_a_schema_of_another_shape_of_tool_is_not_taken_for_ours() -> None:
    tool = SimpleNamespace(parameters={"a": ToolParameter(type="string")}, _input_schema={"type": "object"})
    assert schema_of_tool(tool)["properties"] == {"a": {"type": "string"}}
