"""Rewritten schemas accept all values of the original. Valid arguments arrive unchanged."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._contracts.tool import ToolDefinition
from mcp_bridge._json_schema.inlining import inline_references
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.dialects.argument_repair import ArgumentRepair
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._protocol.dialects.flattening import ROOT_KEYWORDS, ShapeBuilder, flatten_root
from mcp_bridge._protocol.dialects.rewriting import rewrite_tool
from mcp_bridge._protocol.wire.schemas import as_object
from mcp_bridge._protocol.wire.tools import to_wire
from tests.kits.fuzzing import use_examples
from tests.kits.schema.fuzz_schemas import DATA, HOSTILE, NAMES, SOUND

# Generating a schema takes longer than all checks of it.
ALL = SchemaDialect(inline_references=True, flatten_unions=True, write_properties=True, parse_strings=True)
BACK = [{"$ref": reference} for reference in ("#", "#/$defs/m", "#n", "#/$defs/%6D")]
OBJECTS = st.dictionaries(NAMES, DATA, max_size=4)


@use_examples(40)
@given(schema=SOUND, data=st.lists(DATA, min_size=1, max_size=4))
def test_an_inlined_schema_accepts_the_same_values_unless_the_original_contains_itself(
    schema: dict[str, Any], data: list[Any]
) -> None:
    original = Validator(schema)
    if original.ignored_keywords:
        return
    inlined_schema = inline_references(schema)
    rewritten_validator = Validator(inlined_schema)
    assert not rewritten_validator.ignored_keywords
    text = json.dumps(schema["$defs"]["m"])
    endless = json.dumps(BACK[0]) in json.dumps(schema) or any(json.dumps(back) in text for back in BACK)
    for value in data:
        if original.is_valid(value):
            assert rewritten_validator.is_valid(value)
        elif not endless:
            assert not rewritten_validator.is_valid(value)


@use_examples(40)
@given(schema=SOUND, data=st.lists(OBJECTS, min_size=1, max_size=4))
def test_a_flat_schema_accepts_all_values_of_the_original(schema: dict[str, Any], data: list[Any]) -> None:
    root = as_object(schema)
    original, flat = Validator(root), flatten_root(root).schema
    if original.ignored_keywords or flat is root:
        return
    assert not set(ROOT_KEYWORDS) & flat.keys()
    shape = ShapeBuilder(root).build_shape(root)
    assert shape is not None
    sure = {name: subschema if name in shape.certain else {} for name, subschema in flat["properties"].items()}
    rewritten_validator = Validator({**flat, "properties": sure})
    for value in data:
        assert rewritten_validator.is_valid(value) or not original.is_valid(value)


@use_examples(40)
@given(schema=SOUND, value=DATA | DATA.map(json.dumps))
def test_a_valid_argument_stays_unchanged_while_an_invalid_one_is_parsed(schema: dict[str, Any], value: Any) -> None:
    schema_of_value = {word: subschema for word, subschema in schema.items() if word != "$defs"}
    tool_schema = {"properties": {"it": schema_of_value, "count": {"type": "integer"}}, "$defs": schema["$defs"]}
    validator = Validator(tool_schema)
    arguments = ArgumentRepair(tool_schema).repair({"it": value, "count": "1"})
    if validator.is_valid({"it": value, "count": 1}):
        assert arguments["it"] is value
        assert arguments["count"] == 1
    fits = {"it": value}
    if validator.is_valid(fits):
        assert ArgumentRepair(tool_schema).repair(fits) is fits


@use_examples(40)
@given(schema=HOSTILE, data=DATA)
def test_no_schema_makes_a_dialect_raise(schema: Any, data: Any) -> None:
    tool = to_wire(ToolDefinition("odd", "Odd.", "tests", schema, schema))
    rewritten_tool = rewrite_tool(tool, ALL)
    for version in ("2024-11-05", "2025-11-25", "2026-07-28"):
        listing = rewritten_tool.render_listing(version)
        json.dumps(listing)
        assert listing["inputSchema"]["type"] == "object"
    assert rewritten_tool.repair is not None
    rewritten_tool.repair(data)
