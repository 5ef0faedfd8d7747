"""Made-up arguments: what fits a schema does, and what is odd is never what anybody means."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.validation.tools import (
    describe_schema_problem,
    generate_arguments,
    generate_odd_arguments,
)
from mcp_bridge._json_schema.validator import Validator

FITTING: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"properties": {"a": {"type": "string", "minLength": 9, "maxLength": 12}}, "required": ["a"]},
    {"properties": {"a": {"type": "string", "enum": ["x", "y"]}}, "required": ["a"]},
    {"properties": {"a": {"const": 3}}, "required": ["a"]},
    {"properties": {"a": {"type": "integer", "minimum": 5, "multipleOf": 7}}, "required": ["a"]},
    {"properties": {"a": {"type": "number", "exclusiveMinimum": 5}}, "required": ["a"]},
    {"properties": {"a": {"type": "integer", "maximum": -3, "minimum": -9}}, "required": ["a"]},
    {"properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]},
    {"properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "required": ["a", "b"]},
    {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 2}}, "required": ["a"]},
    {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, "required": ["a"]},
    {"properties": {"a": {"type": "string", "pattern": "^z+$", "examples": ["zz"]}}, "required": ["a"]},
    {"properties": {"a": {"type": "integer", "default": 7}}, "required": ["a"]},
    {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ]
    },
    {
        "$defs": {"one": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
        "properties": {"a": {"$ref": "#/$defs/one"}},
        "required": ["a"],
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("schema", FITTING, ids=str)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert Validator(schema).is_valid(generate_arguments(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"allOf": [True, {"type": "object"}]},
        {"anyOf": [False, {"required": ["a"]}]},
        {"required": ["a"], "properties": {"a": False}},
        {"properties": {"a": {"type": "string", "format": "unheard of", "pattern": "^[0-9]{40}$"}}, "required": ["a"]},
        {"properties": {"a": {"type": "array", "minItems": 10000000, "items": {"type": "array"}}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "minLength": 1000000000}}, "required": ["a"]},
        {"properties": {"a": {"minimum": 0.5, "multipleOf": 0.25, "type": "number"}}, "required": ["a"]},
    ],
    ids=str,
)
def test_no_sound_schema_makes_it_raise(schema: dict[str, Any]) -> None:
    assert describe_schema_problem(schema) == ""
    assert isinstance(generate_arguments(schema), dict)
    assert all(isinstance(arguments, dict) for arguments in generate_odd_arguments(schema))


def test_odd_arguments_do_not_fit_where_anything_is_asked() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    validator = Validator(schema)
    assert [validator.is_valid(arguments) for arguments in generate_odd_arguments(schema)] == [
        False,
        False,
        True,
        False,
        False,
        False,
        True,
    ]
    assert all(map(Validator({"type": "object"}).is_valid, generate_odd_arguments({"type": "object"})))
    assert len({str(arguments) for arguments in generate_odd_arguments({"type": "object"})}) == 6


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"type": "objekt"}, "objekt"),
        ({"type": "string"}, "arguments are an object"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "linear time"),
        ({"$ref": "https://example.invalid/schema"}, "example.invalid"),
    ],
)
def test_what_is_no_schema_of_arguments_is_said(schema: dict[str, Any], wrong: str) -> None:
    assert wrong in describe_schema_problem(schema)
