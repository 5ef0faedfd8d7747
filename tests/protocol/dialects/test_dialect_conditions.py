"""Conditions at the root in a dialect: their properties are listed, and a note mentions further conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.dialects.flattening import DEPENDENT, ROOT_KEYWORDS, flatten_root
from mcp_bridge._protocol.dialects.rewriting import CONDITIONS_NOTE, rewrite_tool
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._protocol.wire.tools import to_wire
from tests.kits.dialects.dialect_kit import build_bridge

TEXT = {"type": "string"}
NEEDS_B: dict[str, Any] = {
    "type": "object",
    "properties": {"a": TEXT},
    "if": {"required": ["a"]},
    "then": {"required": ["b"]},
}
ON_A = {"properties": {"n": {"type": "integer"}, "o": TEXT}, "required": ["n"]}


@pytest.mark.parametrize(
    ("description", "expected"), [("Does it.", f"Does it.\n\n{CONDITIONS_NOTE}"), ("", CONDITIONS_NOTE)]
)
def test_a_note_in_the_description_mentions_omitted_conditions(description: str, expected: str) -> None:
    [entry] = build_bridge(NEEDS_B).registry.list()
    tool = replace(to_wire(entry.to_tool_definition()), description=description)
    tool_listing = rewrite_tool(tool, PROFILES["claude-code"].dialect)
    assert tool_listing.input_schema == {"type": "object", "properties": {"a": TEXT, "b": {}}}
    assert tool_listing.description == expected
    assert not Validator(NEEDS_B).is_valid({"a": "1"})


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"dependencies": {"a": ["b"]}}, "ab"),
        ({"dependentSchemas": {"a": ON_A}}, "ano"),
        ({"dependencies": {"a": ON_A}}, "ano"),
        ({"allOf": [NEEDS_B]}, "ab"),
        ({"allOf": [{"dependentRequired": {"a": ["b"]}}]}, "ab"),
        ({"$ref": "#/$defs/n", "$defs": {"n": NEEDS_B}}, "ab"),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, "ab"),
        ({"if": {"not": {"required": ["b"]}}, "then": {"anyOf": [{"required": ["c"]}, {"required": ["d"]}]}}, "abcd"),
        ({"not": {"required": ["a", "b"]}}, "a"),
    ],
)
def test_properties_of_a_condition_are_listed_as_optional(schema: dict[str, Any], names: str) -> None:
    flat = flatten_root({"type": "object", "properties": {"a": TEXT}, **schema})
    assert sorted(flat.schema["properties"]) == list(names)
    assert "required" not in flat.schema
    assert flat.omits_conditions


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"b": TEXT}}, {"required": ["b"]}]},
        {"oneOf": [{"properties": {"b": TEXT}, "required": ["b"]}]},
        {"dependentRequired": {"b": ["a"]}},
    ],
)
def test_the_description_of_a_schema_without_omitted_conditions_is_unchanged(schema: dict[str, Any]) -> None:
    flat = flatten_root({"type": "object", "properties": {"a": TEXT}, **schema})
    assert list(flat.schema["properties"]) == ["a", "b"]
    assert not flat.omits_conditions


def test_a_property_that_one_branch_rejects_is_listed_without_its_schema() -> None:
    flat = flatten_root({"type": "object", "if": {"required": ["a"]}, "then": {"properties": {"b": False}}})
    assert flat.schema["properties"] == {"b": {}, "a": {}}


def test_a_property_that_a_closed_schema_rejects_is_not_listed() -> None:
    flat = flatten_root({**NEEDS_B, "additionalProperties": False})
    assert flat.schema["properties"] == {"a": TEXT}


def test_mentioned_properties_get_the_schema_of_additional_properties() -> None:
    flat = flatten_root({**NEEDS_B, "additionalProperties": {"type": "integer"}})
    assert flat.schema["properties"]["b"] == {"type": "integer"}


def test_the_only_conditions_at_the_root_are_dependent_required_names() -> None:
    parts = {word: {"a": {"required": ["b"]}} for word in DEPENDENT[1:]}
    flat = flatten_root({**NEEDS_B, **parts, "dependentRequired": {"a": ["b"]}}).schema
    assert not set(ROOT_KEYWORDS) & flat.keys()
    assert flat["dependentRequired"] == {"a": ["b"]}


@pytest.mark.parametrize("odd", [None, 5, "text"])
def test_an_invalid_condition_allows_anything(odd: Any) -> None:
    flat = flatten_root({"type": "object", "dependentSchemas": {"a": odd}, "if": odd, "then": {"required": ["b"]}})
    assert flat.schema == {"type": "object", "properties": {"b": {}, "a": {}}}
