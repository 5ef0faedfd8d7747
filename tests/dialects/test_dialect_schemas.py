"""Input schemas in a dialect: references inlined, unions at the root made one object; what fitted still fits."""

from __future__ import annotations

import logging
from typing import Any

import jsonschema_rs
import pytest
from dialect_kit import ADDRESS, REFERRING, SHAPES, TREE
from fuzzing import examples
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge.dialects.flattening import COMBINATORS, flattened
from mcp_bridge.dialects.inlining import MOST, inlined

# References


def test_what_a_reference_leads_to_stands_in_its_place_with_what_stood_beside_it() -> None:
    made = inlined(REFERRING)
    assert made == {
        "type": "object",
        "properties": {
            "home": ADDRESS,
            "others": {"type": "array", "items": {**ADDRESS, "description": "One of many."}},
        },
        "required": ["home"],
    }


def test_a_schema_without_references_stays_the_same_object() -> None:
    assert inlined(ADDRESS) is ADDRESS


def test_what_leads_back_to_itself_ends_where_it_begins_again_and_says_so() -> None:
    tree = inlined(TREE)["properties"]["tree"]
    again = tree["properties"]["branches"]["items"]
    assert again == {"type": "object", "description": "Another Tree, as it is described above."}


def test_a_reference_to_the_whole_ends_at_once() -> None:
    made = inlined({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert made["properties"]["next"] == {"type": "object", "description": "As it is described at the top."}


def test_an_object_that_knows_its_own_properties_alone_is_not_put_together_with_others() -> None:
    closed = {"type": "object", "properties": {"a": {}}}
    made = inlined({"$ref": "#/$defs/c", "additionalProperties": False, "$defs": {"c": closed}})
    assert made == {"additionalProperties": False, "allOf": [closed]}


def test_in_older_drafts_nothing_beside_a_reference_counts() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/n", "maximum": 3, "description": "A number."}},
        "definitions": {"n": {"type": "number"}},
    }
    assert inlined(schema)["properties"]["a"] == {"type": "number", "description": "A number."}


def test_data_that_looks_like_a_reference_is_left_alone() -> None:
    data = {
        "default": {"$ref": "#/$defs/x"},
        "enum": [{"$ref": "#/$defs/x"}],
        "properties": {"$ref": {"type": "string"}},
    }
    schema = {"type": "object", "properties": {"a": data, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}}
    assert inlined(schema)["properties"] == {"a": data, "b": {"type": "null"}}


def test_references_by_anchor_and_by_address_are_inlined_too() -> None:
    schema = {
        "$id": "http://example.com/all",
        "properties": {"a": {"$ref": "#n"}, "b": {"$ref": "http://example.com/part"}},
        "$defs": {
            "n": {"$anchor": "n", "type": "number"},
            "p": {"$id": "http://example.com/part", "$ref": "#/$defs/in", "$defs": {"in": {"type": "null"}}},
        },
    }
    made = inlined(schema)
    assert made == {
        "$id": "http://example.com/all",
        "properties": {"a": {"type": "number"}, "b": {"type": "null"}},
    }


def test_references_that_double_what_they_lead_to_stay_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    doubling: dict[str, Any] = {"d0": {"type": "null"}}
    for level in range(1, 20):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        doubling[f"d{level}"] = {"type": "object", "properties": {"a": below, "b": below}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d19"}}, "$defs": doubling}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert inlined(schema, of="the input of 'big'") is schema
    assert caplog.messages == [f"the references of the input of 'big' stay: it would come to more than {MOST} parts"]


@pytest.mark.parametrize("reference", ["#/$defs/missing", "http://example.com/elsewhere", "#nowhere"])
def test_a_reference_that_leads_nowhere_stays(reference: str) -> None:
    schema = {"properties": {"a": {"$ref": reference}}}
    assert inlined(schema) is schema


# Unions


def test_a_union_at_the_root_becomes_one_object_and_words_on_what_goes_together() -> None:
    flat = flattened(SHAPES)
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
    assert flat.told == (
        "Arguments go together in one of these ways: "
        '(1) `kind` = "circle", `radius`; (2) `kind` = "square", `side` [optional: `turned`].'
    )


def test_alternatives_that_only_require_are_told_in_words() -> None:
    properties = {"url": {"type": "string"}, "data": {"type": "string"}}
    flat = flattened(
        {"type": "object", "properties": properties, "anyOf": [{"required": ["url"]}, {"required": ["data"]}]}
    )
    assert flat.schema == {"type": "object", "properties": properties}
    assert flat.told == "Arguments go together in one of these ways: (1) `url`; (2) `data`."


def test_what_all_parts_want_is_put_together() -> None:
    parts = [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"a": {"maximum": 3}, "b": {"type": "string"}}, "required": ["b"]},
    ]
    assert flattened({"type": "object", "allOf": parts}).schema == {
        "type": "object",
        "properties": {"a": {"maximum": 3, "type": "integer"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }


def test_a_property_that_alternatives_describe_otherwise_is_any_of_these() -> None:
    flat = flattened(
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


def test_what_one_alternative_narrows_stays_wide_for_the_others() -> None:
    flat = flattened(
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


def test_conditions_at_the_root_are_left_out_and_their_properties_are_not() -> None:
    flat = flattened(
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


def test_alternatives_that_close_themselves_close_the_whole() -> None:
    alternatives = [{"properties": {name: {}}, "additionalProperties": False} for name in "ab"]
    flat = flattened({"type": "object", "oneOf": alternatives}).schema
    assert flat["additionalProperties"] is False
    assert list(flat["properties"]) == ["a", "b"]


def test_alternatives_behind_references_are_followed_and_what_is_no_object_is_no_alternative() -> None:
    schema = {
        "type": "object",
        "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
        "$defs": {"a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/b"}}}, "b": {"type": "integer"}},
    }
    flat = flattened(schema).schema
    assert flat["properties"] == {"x": {"$ref": "#/$defs/b"}}
    assert flat["$defs"] == schema["$defs"]


def test_a_schema_without_a_union_stays_the_same_object() -> None:
    assert flattened(ADDRESS).schema is ADDRESS


def test_a_union_stays_where_something_refers_into_it() -> None:
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}},
        ],
    }
    assert flattened(schema).schema is schema


def test_many_alternatives_are_not_all_told() -> None:
    alternatives = [{"properties": {"k": {"const": number}}, "required": ["k"]} for number in range(30)]
    flat = flattened({"type": "object", "oneOf": alternatives})
    assert flat.schema["properties"]["k"] == {"enum": list(range(30))}
    assert flat.told.endswith("; and 18 more.")


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


@examples(300)
@given(
    own=ALTERNATIVE,
    word=st.sampled_from(["anyOf", "oneOf"]),
    union=UNION,
    data=st.lists(st.dictionaries(NAMES, VALUE, max_size=4), min_size=1, max_size=8),
)
def test_what_fits_one_alternative_and_is_described_there_fits_the_flat_schema(
    own: dict[str, Any], word: str, union: list[dict[str, Any]], data: list[dict[str, Any]]
) -> None:
    schema = {**own, "type": "object", word: union}
    original, flat = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(flattened(schema).schema)
    for value in data:
        described = any(
            jsonschema_rs.is_valid(part, value) and value.keys() <= {*own["properties"], *part["properties"]}
            for part in union
        )
        if described and original.is_valid(value):
            assert flat.is_valid(value)


def test_the_schema_before_is_not_changed() -> None:
    before = repr((REFERRING, SHAPES, TREE))
    for schema in (REFERRING, SHAPES, TREE):
        inlined(schema)
        flattened(schema)
    assert repr((REFERRING, SHAPES, TREE)) == before


def test_no_combinator_is_left_at_the_root() -> None:
    assert not set(COMBINATORS) & flattened(SHAPES).schema.keys()
