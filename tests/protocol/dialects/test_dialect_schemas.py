"""References in a dialect: their targets replace them, within limits, and valid arguments stay valid."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcp_bridge._json_schema.inlining import MAX_CHARACTERS, MAX_PARTS, inline_references
from mcp_bridge._protocol.dialects.flattening import flatten_root
from tests.kits.dialects.dialect_kit import ADDRESS, REFERRING, SHAPES, TREE


def test_a_reference_is_replaced_by_its_target_merged_with_its_siblings() -> None:
    inlined_schema = inline_references(REFERRING)
    assert inlined_schema == {
        "type": "object",
        "properties": {
            "home": ADDRESS,
            "others": {"type": "array", "items": {**ADDRESS, "description": "One of many."}},
        },
        "required": ["home"],
    }


def test_a_schema_without_references_stays_the_same_object() -> None:
    assert inline_references(ADDRESS) is ADDRESS


def test_a_recursive_reference_ends_at_its_first_repetition() -> None:
    tree = inline_references(TREE)["properties"]["tree"]
    branch = tree["properties"]["branches"]["items"]
    assert branch == {"type": "object", "description": "Another Tree, as it is described above."}


def test_a_reference_to_the_root_is_not_followed() -> None:
    inlined_schema = inline_references({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert inlined_schema["properties"]["next"] == {"type": "object", "description": "As it is described at the top."}


def test_a_closed_object_is_not_merged_with_other_properties() -> None:
    closed = {"type": "object", "properties": {"a": {}}}
    inlined_schema = inline_references({"$ref": "#/$defs/c", "additionalProperties": False, "$defs": {"c": closed}})
    assert inlined_schema == {"additionalProperties": False, "allOf": [closed]}


def test_in_older_drafts_siblings_of_a_reference_are_ignored() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/n", "maximum": 3, "description": "A number."}},
        "definitions": {"n": {"type": "number"}},
    }
    assert inline_references(schema)["properties"]["a"] == {"type": "number", "description": "A number."}


def test_data_that_looks_like_a_reference_is_unchanged() -> None:
    data = {
        "default": {"$ref": "#/$defs/x"},
        "enum": [{"$ref": "#/$defs/x"}],
        "properties": {"$ref": {"type": "string"}},
    }
    schema = {"type": "object", "properties": {"a": data, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}}
    assert inline_references(schema)["properties"] == {"a": data, "b": {"type": "null"}}


@pytest.mark.parametrize("reference", ["#n", "http://example.com/part"])
def test_references_by_anchor_and_by_address_stay(reference: str) -> None:
    definitions = {"n": {"$anchor": "n", "type": "number"}, "p": {"$id": "http://example.com/part", "type": "null"}}
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": definitions}
    assert inline_references(schema) is schema


def test_references_that_multiply_their_targets_stay_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    doubling: dict[str, Any] = {"d0": {"type": "null"}}
    for level in range(1, 20):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        doubling[f"d{level}"] = {"type": "object", "properties": {"a": below, "b": below}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d19"}}, "$defs": doubling}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert inline_references(schema, label="the input of 'big'") is schema
    assert caplog.messages == [
        f"cannot inline the references of the input of 'big': it would come to more than {MAX_PARTS} parts"
    ]


@pytest.mark.parametrize("reference", ["#/$defs/missing", "http://example.com/elsewhere", "#nowhere"])
def test_an_unresolvable_reference_stays(reference: str) -> None:
    schema = {"properties": {"a": {"$ref": reference}}}
    assert inline_references(schema) is schema


def test_references_that_repeat_long_texts_stay_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    long = {"type": "string", "description": "x" * 10_000}
    properties = {f"p{number}": {"$ref": "#/$defs/long"} for number in range(500)}
    schema = {"type": "object", "properties": properties, "$defs": {"long": long}}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert inline_references(schema) is schema
    assert caplog.messages == [
        f"cannot inline the references of a schema: it would come to more than {MAX_CHARACTERS} characters"
    ]


def test_deeply_nested_references_stay_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    steps = {f"d{n}": {"properties": {"a": {"properties": {"b": {"$ref": f"#/$defs/d{n + 1}"}}}}} for n in range(30)}
    schema = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**steps, "d30": {"type": "null"}}}
    with caplog.at_level(logging.WARNING, "mcp_bridge.dialects"):
        assert inline_references(schema) is schema
    assert caplog.messages == ["cannot inline the references of a schema: it would be nested deeper than 100 levels"]


@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_a_reference_at_the_root_becomes_its_target_and_keeps_the_draft(draft: str) -> None:
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    schema = {"$schema": draft, "type": "object", "$ref": "#/definitions/A", "definitions": {"A": closed}}
    assert inline_references(schema) == {"$schema": draft, **closed}


def test_the_original_schema_is_not_changed() -> None:
    before = repr((REFERRING, SHAPES, TREE))
    for schema in (REFERRING, SHAPES, TREE):
        inline_references(schema)
        flatten_root(schema)
    assert repr((REFERRING, SHAPES, TREE)) == before
