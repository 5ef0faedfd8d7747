"""Unions at the root in a dialect become one object, and valid arguments stay valid."""

from __future__ import annotations

import logging
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._protocol.dialects.flattening import ROOT_KEYWORDS, flatten_root
from tests.kits.dialects.dialect_kit import ADDRESS, SHAPES
from tests.kits.fuzzing import use_examples


def test_a_union_at_the_root_becomes_one_object_that_omits_conditions() -> None:
    flat = flatten_root(SHAPES)
    assert flat.schema == {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "kind": {"enum": ["circle", "square"]},
            "radius": {"type": "number"},
            "side": {"type": "number"},
            "turned": {"type": "boolean"},
        },
        "required": ["kind"],
    }
    assert flat.omits_conditions


def test_alternatives_with_only_required_names_are_left_out() -> None:
    properties = {"url": {"type": "string"}, "data": {"type": "string"}}
    flat = flatten_root(
        {"type": "object", "properties": properties, "anyOf": [{"required": ["url"]}, {"required": ["data"]}]}
    )
    assert flat.schema == {"type": "object", "properties": properties}
    assert flat.omits_conditions


def test_the_properties_of_all_parts_are_merged() -> None:
    parts = [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"a": {"maximum": 3}, "b": {"type": "string"}}, "required": ["b"]},
    ]
    assert flatten_root({"type": "object", "allOf": parts}).schema == {
        "type": "object",
        "properties": {"a": {"maximum": 3, "type": "integer"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }


def test_a_property_with_different_schemas_in_alternatives_may_fit_any_of_them() -> None:
    flat = flatten_root(
        {
            "type": "object",
            "anyOf": [
                {"properties": {"id": {"type": "string"}, "same": {"type": "null"}}},
                {"properties": {"id": {"type": "integer"}, "same": {"type": "null"}}},
            ],
        }
    )
    assert flat.schema["properties"] == {
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "same": {"type": "null"},
    }


def test_a_property_that_one_alternative_narrows_stays_as_wide_as_in_the_others() -> None:
    flat = flatten_root(
        {
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "anyOf": [
                {"properties": {"kind": {"const": "small"}, "size": {"maximum": 10}}},
                {"properties": {"kind": {"const": "any"}}},
            ],
        }
    )
    assert flat.schema["properties"]["size"] == {"type": "integer"}


def test_conditions_at_the_root_are_left_out_but_their_properties_are_listed() -> None:
    flat = flatten_root(
        {
            "type": "object",
            "properties": {"mode": {"type": "string"}},
            "allOf": [
                {"if": {"properties": {"mode": {"const": "x"}}}, "then": {"properties": {"level": {"type": "integer"}}}}
            ],
            "not": {"required": ["nothing"]},
        }
    )
    assert flat.schema == {
        "type": "object",
        "properties": {"mode": {"type": "string"}, "level": {"type": "integer"}},
    }


def test_closed_alternatives_make_a_closed_object() -> None:
    alternatives = [{"properties": {name: {}}, "additionalProperties": False} for name in "ab"]
    flat = flatten_root({"type": "object", "oneOf": alternatives}).schema
    assert flat["additionalProperties"] is False
    assert list(flat["properties"]) == ["a", "b"]


def test_alternatives_behind_references_are_followed_and_those_without_objects_ignored() -> None:
    schema = {
        "type": "object",
        "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
        "$defs": {"a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/b"}}}, "b": {"type": "integer"}},
    }
    flat = flatten_root(schema).schema
    assert flat["properties"] == {"x": {"$ref": "#/$defs/b"}}
    assert flat["$defs"] == schema["$defs"]


def test_a_schema_without_a_union_stays_the_same_object() -> None:
    assert flatten_root(ADDRESS).schema is ADDRESS


def test_a_union_that_no_object_fits_stays() -> None:
    schema = {"type": "object", "anyOf": [{"type": "string"}, {"type": "null"}]}
    assert flatten_root(schema).schema is schema


def test_a_union_stays_if_a_reference_points_into_it() -> None:
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}},
        ],
    }
    assert flatten_root(schema).schema is schema


def test_the_values_of_many_alternatives_become_one_list() -> None:
    alternatives = [{"properties": {"k": {"const": number}}, "required": ["k"]} for number in range(30)]
    flat = flatten_root({"type": "object", "oneOf": alternatives})
    assert flat.schema["properties"]["k"] == {"enum": list(range(30))}


def test_values_that_are_equal_only_in_python_stay_separate() -> None:
    alternatives = [{"properties": {"k": {"const": value}}} for value in (1, True, 1.0, [0], [False])]
    flat = flatten_root({"type": "object", "anyOf": alternatives})
    assert repr(flat.schema["properties"]["k"]) == "{'enum': [1, True, [0], [False]]}"


@pytest.mark.parametrize(
    "parts",
    [
        {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n", "title": str(n)} for n in range(60)]}}},
        {"oneOf": [{"properties": {f"p{number}": {"type": "null"}}} for number in range(3_000)]},
        {"oneOf": [{"properties": {"k": {"const": "x" * 10_000 + str(number)}}} for number in range(400)]},
    ],
    ids=["leading back", "many", "long"],
)
def test_alternatives_that_multiply_stay_and_the_reason_is_logged(
    parts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "object", **parts}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert flatten_root(schema, label="the input of 'big'").schema is schema
    [message] = caplog.messages
    assert message.startswith(
        "cannot flatten the unions at the top of the input of 'big': merging them takes more than"
    )


@pytest.mark.parametrize("reference", ["#n", "#/$defs/missing", "http://example.com/elsewhere"])
def test_properties_behind_a_reference_are_listed(reference: str, caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "$ref": reference, "$defs": {"n": {"$anchor": "n", "properties": {"a": {}}}}}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert flatten_root(schema).schema is schema
    assert f"{reference!r} does not resolve" in caplog.text


def test_references_with_encoded_names_are_followed() -> None:
    schema = {"type": "object", "$ref": "#/$defs/%41", "$defs": {"A": {"properties": {"a": {"type": "null"}}}}}
    assert flatten_root(schema).schema["properties"] == {"a": {"type": "null"}}


# Any union of objects

NAMES = st.sampled_from("abcd")
SCALARS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "string"},
        {"type": "boolean"},
        {"const": 1},
        {"enum": ["x", "y"]},
        {"maximum": 2},
        {},
    ]
)
VALUE = st.integers(0, 4) | st.sampled_from(["x", "y", "z"]) | st.booleans()
ALTERNATIVE = st.fixed_dictionaries(
    {"properties": st.dictionaries(NAMES, SCALARS, max_size=3)},
    optional={
        "required": st.lists(NAMES, unique=True, max_size=2),
        "additionalProperties": st.sampled_from([False, True, {"type": "integer"}]),
        "type": st.just("object"),
    },
)
UNION = st.lists(ALTERNATIVE, min_size=1, max_size=3)


@use_examples(150)
@given(
    root=ALTERNATIVE,
    word=st.sampled_from(["anyOf", "oneOf"]),
    union=UNION,
    data=st.lists(st.dictionaries(NAMES, VALUE, max_size=4), min_size=1, max_size=8),
)
def test_a_value_that_fits_a_described_alternative_fits_the_flat_schema(
    root: dict[str, Any], word: str, union: list[dict[str, Any]], data: list[dict[str, Any]]
) -> None:
    schema = {**root, "type": "object", word: union}
    original, flat = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(flatten_root(schema).schema)
    for value in data:
        described = any(
            jsonschema_rs.is_valid(alternative, value)
            and value.keys() <= {*root["properties"], *alternative["properties"]}
            for alternative in union
        )
        if described and original.is_valid(value):
            assert flat.is_valid(value)


def test_no_combinator_is_left_at_the_root() -> None:
    assert not set(ROOT_KEYWORDS) & flatten_root(SHAPES).schema.keys()
