"""A ToolParameter becomes JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import jsonschema
import pytest

from mcp_bridge._integrations.xaibo.schemas import build_schema, convert_arguments
from mcp_bridge.xaibo import ToolParameter


def build_property(**fields: Any) -> Any:
    """Return the schema of one parameter."""
    return build_schema({"p": ToolParameter(**fields)})["properties"]["p"]


def test_a_type_of_json_schema_is_not_changed() -> None:
    kinds = ["string", "integer", "number", "boolean", "object", "null"]
    assert [build_property(type=key) for key in kinds] == [{"type": key} for key in kinds]


def test_a_python_name_of_a_type_becomes_its_json_type() -> None:
    aliases = ["str", "int", "float", "bool", "dict", "None"]
    kinds = ["string", "integer", "number", "boolean", "object", "null"]
    assert [build_property(type=alias) for alias in aliases] == [{"type": key} for key in kinds]


def test_an_unknown_type_is_left_out() -> None:
    assert [build_property(type=key) for key in ("any", "", "String", "list[str]")] == [{}] * 4


@pytest.mark.parametrize("case", ["array", "list"])
def test_an_array_has_items_of_any_kind(case: str) -> None:
    assert build_property(type=case) == {"type": "array", "items": {}}


def test_objects_and_the_root_allow_further_properties() -> None:
    schema = build_schema({"o": ToolParameter(type="object")})
    assert schema == {"type": "object", "properties": {"o": {"type": "object"}}}
    jsonschema.validate({"o": {"any": 1}, "more": 2}, schema)


@pytest.mark.parametrize("description", [None, ""])
def test_an_empty_description_is_left_out(description: str | None) -> None:
    assert build_property(type="string", description=description) == {"type": "string"}


def test_a_description_is_copied() -> None:
    assert build_property(type="string", description="Where.") == {"type": "string", "description": "Where."}


def test_required_names_are_in_order_and_left_out_if_there_are_none() -> None:
    item, second_item = ToolParameter(type="string", required=True), ToolParameter(type="string")
    assert build_schema({"b": item, "c": second_item, "a": item})["required"] == ["b", "a"]
    assert build_schema({"c": second_item}) == {"type": "object", "properties": {"c": {"type": "string"}}}
    assert build_schema({}) == {"type": "object", "properties": {}}


def test_a_default_makes_a_required_parameter_optional() -> None:
    schema = build_schema({"n": ToolParameter(type="integer", required=True, default=0)})
    assert schema == {"type": "object", "properties": {"n": {"type": "integer", "default": 0}}}


@pytest.mark.parametrize("default", ["", 0, False, {"a": [None]}])
def test_a_default_is_copied_unchanged(default: Any) -> None:
    assert build_property(type="any", default=default) == {"default": default}


def test_a_default_is_a_copy() -> None:
    parameter = ToolParameter(type="array", default=[1])
    build_schema({"p": parameter})["properties"]["p"]["default"].append(2)
    assert parameter.default == [1]


@pytest.mark.parametrize("default", [object(), [float("inf")]])
def test_a_default_that_is_not_json_is_left_out_but_makes_the_parameter_optional(default: Any) -> None:
    schema = build_schema({"p": ToolParameter(type="any", required=True, default=default)})
    assert schema == {"type": "object", "properties": {"p": {}}}


@pytest.mark.parametrize(("case", "message"), [("null", {"type": "null", "default": None}), ("any", {"default": None})])
def test_an_explicit_default_of_null_is_copied(case: str, message: Any) -> None:
    assert build_property(type=case, default=None) == message


@pytest.mark.parametrize("case", ["string", "array"])
def test_a_default_of_null_is_left_out_if_the_type_forbids_it(case: str) -> None:
    assert "default" not in build_property(type=case, default=None)


def test_a_default_of_null_is_left_out_if_it_was_not_set_or_the_parameter_is_required() -> None:
    assert build_property(type="any") == {}
    assert build_property(type="any", default=None, enum=["a"]) == {"enum": ["a"]}
    schema = build_schema({"p": ToolParameter(type="any", default=None, required=True)})
    assert schema == {"type": "object", "properties": {"p": {}}, "required": ["p"]}


@pytest.mark.parametrize(
    ("case", "enum", "members"),
    [
        ("string", ["1", "true"], ["1", "true"]),
        ("any", ["1", "a"], ["1", "a"]),
        ("integer", ["1", "-2", "3.0"], [1, -2, 3]),
        ("number", ["1", "2.5", "1e3"], [1, 2.5, 1000.0]),
        ("boolean", ["true", "False"], [True, False]),
    ],
)
def test_members_of_an_enum_have_the_type_of_the_parameter(case: str, enum: list[str], members: list[Any]) -> None:
    result = build_property(type=case, enum=enum)["enum"]
    assert [(type(item) is bool, item) for item in result] == [(type(item) is bool, item) for item in members]


@pytest.mark.parametrize(
    ("case", "enum"),
    [
        ("integer", ["1", "many"]),
        ("integer", ["1.5"]),
        ("integer", ["true"]),
        ("integer", ["1" * 30]),
        ("number", ["NaN"]),
        ("number", ["1" * 5000]),
        ("boolean", ["yes", "no"]),
    ],
)
def test_the_type_is_left_out_if_the_enum_does_not_match_it(case: str, enum: list[str]) -> None:
    assert build_property(type=case, enum=enum) == {"enum": enum}


def test_a_number_in_two_forms_is_one_member() -> None:
    assert build_property(type="number", enum=["1", "1.0", "2"])["enum"] == [1, 2]
    assert build_property(type="string", enum=["a", "a"])["enum"] == ["a"]


def test_the_enum_of_an_array_applies_to_its_items() -> None:
    schema = build_schema({"p": ToolParameter(type="array", enum=["a", "b"])})
    assert schema["properties"]["p"] == {"type": "array", "items": {"enum": ["a", "b"]}}
    jsonschema.validate({"p": ["a", "b", "a"]}, schema)


@pytest.mark.parametrize("case", ["object", "null"])
def test_objects_and_null_have_no_enum(case: str) -> None:
    assert build_property(type=case, enum=["a"]) == {"type": case}


def test_an_empty_enum_is_left_out() -> None:
    assert build_property(type="string", enum=[]) == {"type": "string"}


def test_a_default_among_the_members_has_their_type() -> None:
    assert build_property(type="integer", enum=["1", "2"], default="2") == {
        "type": "integer",
        "enum": [1, 2],
        "default": 2,
    }


def test_arguments_become_the_texts_of_the_enum() -> None:
    parameters = {
        "level": ToolParameter(type="integer", enum=["1", "2.0"]),
        "ratio": ToolParameter(type="number", enum=["0.50"]),
        "loud": ToolParameter(type="boolean", enum=["True", "False"], default="True"),
        "city": ToolParameter(type="string", enum=["1"], default="1"),
        "free": ToolParameter(type="integer"),
    }
    arguments = {"level": 2, "ratio": 0.5, "loud": False, "city": "1", "free": 1, "unknown": 1}
    assert convert_arguments(parameters, arguments) == {**arguments, "level": "2.0", "ratio": "0.50", "loud": "False"}
    assert convert_arguments(parameters, {}) == {}


def test_true_is_not_the_member_one_and_other_values_are_not_changed() -> None:
    parameters = {"p": ToolParameter(type="integer", enum=["1"])}
    assert convert_arguments(parameters, {"p": True}) == {"p": True}
    assert convert_arguments(parameters, {"p": 7}) == {"p": 7}
    assert convert_arguments(parameters, {"p": 1.0}) == {"p": "1"}
    assert convert_arguments(None, {"p": 1}) == {"p": 1}


def test_arguments_are_a_new_mapping_of_the_same_values() -> None:
    arguments = {"a": [1]}
    result = convert_arguments({"a": ToolParameter(type="array")}, arguments)
    assert result is not arguments
    assert result["a"] is arguments["a"]


@dataclass
class Parameter:
    """A parameter of an unknown package."""

    type: str
    description: str | None = None
    required: bool = False
    default: Any = None
    enum: Any = None


class Colour(Enum):
    """No JSON."""

    RED = 1


def test_parameters_of_any_class_are_read_by_their_fields() -> None:
    value = {"type": "integer", "description": "How many.", "enum": [1, 2], "default": 1}
    fields: dict[str, Any] = {
        "type": "int",
        "description": "How many.",
        "default": 1,
        "enum": ("1", "2"),
        "required": True,
    }
    for parameter in (fields, Parameter(**fields), SimpleNamespace(**fields)):
        assert build_schema({"p": parameter}) == {"type": "object", "properties": {"p": value}}
        assert convert_arguments({"p": parameter}, {"p": 2}) == {"p": "2"}


def test_a_default_of_null_counts_in_a_mapping_with_that_key() -> None:
    assert build_schema({"p": {"type": "any", "default": None}})["properties"]["p"] == {"default": None}
    assert build_schema({"p": {"type": "any"}, "q": Parameter("any")})["properties"] == {"p": {}, "q": {}}


def test_members_that_are_numbers_are_not_changed_and_an_enum_that_is_not_json_is_left_out() -> None:
    assert build_schema({"p": {"type": "integer", "enum": [1, 2]}})["properties"]["p"]["enum"] == [1, 2]
    assert convert_arguments({"p": {"type": "integer", "enum": [1, 2]}}, {"p": 2}) == {"p": 2}
    assert build_schema({"p": {"type": "string", "enum": [1]}})["properties"]["p"] == {"enum": [1]}
    assert build_schema({"p": {"type": "any", "enum": [Colour.RED, "a"]}})["properties"]["p"] == {}
    assert build_schema({"p": {"type": "any", "enum": "abc"}})["properties"]["p"] == {}


def test_a_parameter_without_fields_accepts_any_value() -> None:
    odd = {"a": None, "b": "string", "c": MagicMock(), "d": 7, 5: {"type": "string"}}
    properties = build_schema(odd)["properties"]  # type: ignore[arg-type]
    assert {name: properties[name] for name in "abd"} == {"a": {}, "b": {}, "d": {}}
    assert "type" not in properties["c"]
    assert properties["5"] == {"type": "string"}


def test_parameters_that_are_no_mapping_raise_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"^parameters: expected a mapping of names to ToolParameters, found list$"):
        build_schema([{"name": "a"}])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found MagicMock"):
        build_schema(MagicMock())


def test_an_enum_of_many_members_is_read_quickly() -> None:
    enum = [str(number) for number in range(50_000)]
    value = build_property(type="integer", enum=[*enum, *enum])["enum"]
    assert value == list(range(50_000))
