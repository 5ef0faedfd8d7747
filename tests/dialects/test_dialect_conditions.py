"""Conditions at the root in a dialect: what they speak of is listed, and words say what depends on what."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcp_bridge.dialects.conditions import DEPENDENT
from mcp_bridge.dialects.flattening import COMBINATORS, flattened
from mcp_bridge.dialects.rewriting import applied
from mcp_bridge.dialects.table import PROFILES
from mcp_bridge.schema.validator import Validator
from mcp_bridge.wire.tools import to_wire
from tests.kits.dialects.dialect_kit import bridge_with

TEXT = {"type": "string"}
NEEDS_B: dict[str, Any] = {
    "type": "object",
    "properties": {"a": TEXT},
    "if": {"required": ["a"]},
    "then": {"required": ["b"]},
}
ON_A = {"properties": {"n": {"type": "integer"}, "o": TEXT}, "required": ["n"]}


def told(**schema: Any) -> str:
    """What is said of the conditions of a schema, behind the words they begin with."""
    begin, _, rest = flattened({"type": "object", **schema}).told.partition(": ")
    assert begin == "Arguments depend on each other"
    return rest


def test_a_client_is_told_of_a_property_that_only_a_condition_requires() -> None:
    [entry] = bridge_with(NEEDS_B).registry.list()
    listed = applied(to_wire(entry.to_tool_definition()), PROFILES["claude-code"].dialect)
    assert listed.input_schema == {"type": "object", "properties": {"a": TEXT, "b": {}}}
    assert listed.description == ("Does it.\n\nArguments depend on each other: if `a` is given, then `b` is required.")
    assert not Validator(NEEDS_B).is_valid({"a": "1"})


@pytest.mark.parametrize(
    ("schema", "names", "words"),
    [
        ({"dependentRequired": {"a": ["b", "c"]}}, "abc", "if `a` is given, then `b`, `c` are required."),
        ({"dependencies": {"a": ["b"]}}, "ab", "if `a` is given, then `b` is required."),
        ({"dependentSchemas": {"a": ON_A}}, "ano", "if `a` is given, then `n` is required, `o` may be given."),
        ({"dependencies": {"a": ON_A}}, "ano", "if `a` is given, then `n` is required, `o` may be given."),
        ({"allOf": [NEEDS_B]}, "ab", "if `a` is given, then `b` is required."),
        ({"$ref": "#/$defs/n", "$defs": {"n": NEEDS_B}}, "ab", "if `a` is given, then `b` is required."),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, "ab", "unless `a` is given, `b` is required."),
        ({"not": {"required": ["a", "b"]}}, "a", "if `a` is given and `b` is given, then the call is refused."),
    ],
)
def test_what_depends_on_a_property_is_listed_as_optional_and_told(
    schema: dict[str, Any], names: str, words: str
) -> None:
    whole = {"type": "object", "properties": {"a": TEXT}, **schema}
    flat = flattened(whole).schema
    assert list(flat["properties"]) == list(names)
    assert "required" not in flat
    assert told(properties={"a": TEXT}, **schema) == words


def test_several_conditions_are_numbered_and_say_which_values_they_are_about() -> None:
    words = told(
        properties={"country": {"enum": ["US", "DE", "AT"]}, "zip": TEXT},
        required=["country"],
        allOf=[
            {
                "if": {"properties": {"country": {"const": "US"}}},
                "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}, "state": TEXT}, "required": ["state"]},
            },
            {
                "if": {"properties": {"country": {"enum": ["DE", "AT"]}}},
                "then": {"properties": {"state": False}},
                "else": {"required": ["zip"]},
            },
        ],
    )
    assert words == (
        '(1) if `country` is "US", then `state` is required, `zip` must fit {"pattern": "^[0-9]{5}$"}, '
        '`state` must fit {"type": "string"}; '
        '(2) if `country` is one of ["DE", "AT"], then `state` must not be given; otherwise `zip` is required.'
    )


def test_a_condition_on_what_may_be_left_out_says_so_and_an_else_may_hold_the_next() -> None:
    second = {"if": {"properties": {"k": {"const": 2}}, "required": ["k"]}, "then": {"required": ["b"]}, "else": False}
    words = told(**{"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["a"]}, "else": second})
    assert words == (
        "if `k` is 1 or is not given, then `a` is required; "
        "otherwise if `k` is 2, then `b` is required; otherwise the call is refused."
    )


def test_a_condition_that_words_cannot_say_is_told_as_it_was_written() -> None:
    schema = {"if": {"not": {"required": ["a"]}}, "then": {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}}
    assert told(**schema) == (
        'if the arguments fit {"not": {"required": ["a"]}}, '
        'then the arguments must fit {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}.'
    )
    assert list(flattened({"type": "object", **schema}).schema["properties"]) == ["a", "b", "c"]


def test_what_one_branch_refuses_alone_is_listed_without_that() -> None:
    flat = flattened({"type": "object", "if": {"required": ["a"]}, "then": {"properties": {"b": False}}})
    assert flat.schema["properties"] == {"b": {}, "a": {}}


def test_a_property_that_the_schema_closes_out_is_not_listed() -> None:
    flat = flattened({**NEEDS_B, "additionalProperties": False})
    assert flat.schema["properties"] == {"a": TEXT}


def test_properties_that_others_must_fit_too_are_listed_as_these() -> None:
    flat = flattened({**NEEDS_B, "additionalProperties": {"type": "integer"}})
    assert flat.schema["properties"]["b"] == {"type": "integer"}


def test_no_condition_is_left_at_the_root_but_lists_of_names() -> None:
    parts = {word: {"a": {"required": ["b"]}} for word in DEPENDENT[1:]}
    flat = flattened({**NEEDS_B, **parts, "dependentRequired": {"a": ["b"]}}).schema
    assert not set(COMBINATORS) & flat.keys()
    assert flat["dependentRequired"] == {"a": ["b"]}


@pytest.mark.parametrize("odd", [None, 5, "text"])
def test_a_condition_that_is_no_schema_is_read_as_one_that_allows_anything(odd: Any) -> None:
    flat = flattened({"type": "object", "dependentSchemas": {"a": odd}, "if": odd, "then": {"required": ["b"]}})
    assert flat.told == "Arguments depend on each other: if anything is given, then `b` is required."


def test_words_on_many_conditions_stay_short() -> None:
    many = {f"a{number}": {"required": [f"{key}{number}" for key in "bc"]} for number in range(100)}
    words = told(dependentSchemas=many)
    assert words.endswith("; and 88 more.")
    long = {"a": [f"b{number}" for number in range(3_000)]}
    assert len(flattened({"type": "object", "dependentRequired": long}).told) < 4_010


def test_conditions_that_take_long_to_tell_stay_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    big = {"properties": {"x": {"enum": ["x" * 1_000_000]}}, "maxProperties": 9}
    parts = {f"a{number}": {"$ref": "#/$defs/big"} for number in range(5_000)}
    schema = {"type": "object", "dependentSchemas": parts, "$defs": {"big": big}}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert flattened(schema).schema is schema
    assert "takes more than" in caplog.text
