"""A third party's schema is published without unknown keywords, and never rejects more than before."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._json_schema.schema_checks import repair_third_party_schema
from mcp_bridge._json_schema.schema_repair import reduce_schema
from mcp_bridge._json_schema.size_limits import MAX_EXPANDED_VALUES, count_expanded
from mcp_bridge._json_schema.validator import Validator

UNUSABLE = "^[\\w-.]+$"
VALUES: list[Any] = ["b", "a-b", 1, None, [], ["b"], [1, 2], {}, {"b": 1}, {"a": "b"}, {"x-a": 1}]
LOOSENED = {
    "not": {"not": {"pattern": UNUSABLE}},
    "not with look-around": {"not": {"pattern": "(?=a)"}},
    "if": {"if": {"pattern": UNUSABLE}, "then": {"maxLength": 0}, "else": {"minLength": 1}},
    "alternatives": {"oneOf": [{"type": "string", "pattern": UNUSABLE}, {}]},
    "other properties": {"patternProperties": {UNUSABLE: {}}, "additionalProperties": False},
    "no properties": {"properties": None, "additionalProperties": False},
    "other items": {"prefixItems": None, "items": False},
    "contained items": {"contains": {"type": "string", "pattern": UNUSABLE}, "maxContains": 0, "minContains": 0},
    "reference to another document": {"$ref": "https://example.com/schema.json"},
    "not a reference that leads nowhere": {"not": {"$ref": "#/$defs/none"}},
}


@pytest.mark.parametrize("case", LOOSENED)
def test_a_repaired_schema_rejects_no_further_values(case: str) -> None:
    repaired_schema, notes = repair_third_party_schema(LOOSENED[case])
    assert notes
    assert [value for value in VALUES if not Validator(repaired_schema).is_valid(value)] == []


def test_only_the_reference_that_leads_nowhere_is_left_out() -> None:
    good = {"$ref": "#/$defs/city"}
    schema = {"properties": {"from": good, "to": {"$ref": "#/$defs/town"}}, "$defs": {"city": {"type": "string"}}}
    repaired_schema, (note,) = repair_third_party_schema(schema)
    assert repaired_schema == {**schema, "properties": {"from": good, "to": {}}}
    assert note.startswith("#/properties/to/$ref is left out: ")


@pytest.mark.parametrize(
    ("keyword", "value", "reason"),
    [("$ref", "#/$defs/town", "town"), ("$ref", "https://example.com/a", "example.com"), ("$schema", "draft", "draft")],
)
def test_each_note_has_the_reason_of_its_own_keyword(keyword: str, value: str, reason: str) -> None:
    schema = {"properties": {"from": {"pattern": "(?=a)"}, "to": {"pattern": UNUSABLE}}, "required": None}
    _, notes = repair_third_party_schema({**schema, keyword: value})
    (note,) = [note for note in notes if note.startswith(f"#/{keyword} is left out: ")]
    assert reason in note


def test_types_stay_as_they_are_written() -> None:
    repaired_schema, _ = repair_third_party_schema(
        {"type": "object", "required": None, "properties": {"a": {"type": "any"}}}
    )
    assert repaired_schema == {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize("root", ["object", "array"])
def test_a_schema_that_is_too_large_is_reduced_to_its_outline(root: str) -> None:
    properties = {"a": {"type": "string", "description": "A", "pattern": "x" * 99}}
    outline = reduce_schema({"type": root, "properties": properties}, lambda schema: "pattern" not in str(schema))
    assert outline == {
        "type": root,
        "properties": {"a": {"type": "string", "description": "A"}},
        "required": [],
    }


@pytest.mark.parametrize("spelling", ["a{}", "./a{}", "x/../a{}", "%61{}", "http://e.example/a{}", "a{}#"])
def test_references_that_double_are_counted_however_an_address_is_written(spelling: str) -> None:
    base = "http://e.example/"
    definitions = {
        f"a{number}": {"$id": f"{base}a{number}", "allOf": [{"$ref": spelling.format(number + 1)}] * 2}
        for number in range(40)
    }
    definitions["a40"] = {"$id": f"{base}a40"}
    assert count_expanded({"$id": base, "$ref": spelling.format(0), "$defs": definitions}) > MAX_EXPANDED_VALUES
